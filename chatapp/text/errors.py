"""What ends as one line for the user, instead of a traceback."""


class InputError(Exception):
    """The prompt, the file or the place that the user gave cannot be used; the message is for the user."""


def user_errors() -> tuple[type[Exception], ...]:
    """Every exception whose message is for the user; a function, because most of these take long to import."""
    from backends import BackendError
    from chatapp.commands.parse import SlashError
    from chatapp.evaluation.verify.errors import VerifyError
    from chatapp.generation import GenerationError, OptionError
    from chatapp.history import HistoryError
    from chatapp.settings.offline import Offline
    from chatapp.settings.settings import SettingsError
    from model_store import StoreError

    ours = BackendError, GenerationError, HistoryError, InputError, Offline, OptionError, SettingsError
    return *ours, SlashError, StoreError, VerifyError


def one_line(error: BaseException) -> str | None:
    """The error in one line for the user, or None where it is a defect of chatapp."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror.lower()}{where}"
    if isinstance(error, MemoryError):
        return "this machine has not enough free memory; try a smaller model or --precision int4"
    return " ".join(str(error).split()) if isinstance(error, user_errors()) else None
