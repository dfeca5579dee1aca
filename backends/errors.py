"""The errors whose message is for the user, and those of the backends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class UserError(Exception):
    """The base of errors whose message tells the user what went wrong, to what, and what to do; others are defects.

    UserError
    ├── BackendError       backends
    ├── StoreError         model_store
    ├── GenerationError    chatapp.generation, as are OptionError and RenderingError
    ├── VerifyError        chatapp.evaluation
    ├── HistoryError       chatapp.history
    ├── SettingsError      chatapp.settings, as is Offline
    ├── ToolError          chatapp.conversation
    └── InputError         chatapp.text, as is UsageError
    """


class BackendError(UserError):
    """A backend cannot do what was asked.

    BackendError
    └── ContextExceeded
    """


class ContextExceeded(BackendError):
    """More tokens than the context holds."""


@contextmanager
def foreign(failure: str, tell: Callable[[Exception], str] = str) -> Iterator[None]:
    """Turn every exception of a vendor's runtime into a BackendError; runtimes have no base class of their own.

    Its message is the `failure`, and what `tell` makes of the exception.
    """
    try:
        yield
    except BackendError:
        raise
    except Exception as error:
        raise BackendError(f"{failure}: {tell(error)}") from error
