"""Errors as one line for the user, instead of a traceback."""

from backends.errors import UserError as UserError


class InputError(UserError):
    """The prompt, the file or the place that the user gave cannot be used."""


def one_line(error: BaseException) -> str | None:
    """The error in one line for the user, or None where it is a defect of chatapp."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror.lower()}{where}"
    if isinstance(error, MemoryError):
        return "this machine has not enough free memory; try a smaller model or --precision int4"
    return " ".join(str(error).split()) if isinstance(error, UserError) else None
