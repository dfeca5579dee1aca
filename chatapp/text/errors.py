"""Errors as one line for the user, instead of a traceback."""

import re
from pathlib import Path

from backends.errors import UserError as UserError


class InputError(UserError):
    """The user's prompt, file or place cannot be used."""


class UsageError(InputError):
    """A command's arguments cannot be used so, or not together."""


def one_line(error: BaseException) -> str | None:
    """The error in one line for the user; None for a defect of chatapp."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror.lower()}{where}"
    if isinstance(error, MemoryError):
        return "this machine has not enough free memory; try a smaller model or --precision int4"
    return " ".join(str(error).split()) if isinstance(error, UserError) else None


def describe_defect(error: BaseException) -> str:
    """The kind and place of an error, without its message, which may contain the user's words."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


def begin_sentence(text: str) -> str:
    """An error as a sentence; a name at its beginning stays as it is written."""
    return text[:1].upper() + text[1:] if BEGINNING.match(text) else text


BEGINNING = re.compile(
    "(?:the|this|that|there|these|no|none|nothing|cannot|it|its|only|a|an|one|another|conversations?|unknown|say|which"
    r"|what|write|choose|you|your|not|answers|models) "
)
"""The words that errors begin with, other than names."""
