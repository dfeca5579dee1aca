"""Reads TOML that anybody may have written, and writes values as TOML."""

import errno
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.errors import UserError

LARGEST = 1 << 20
"""Maximum bytes of a file."""

DEEPEST = 20
"""Maximum nesting: anything deeper could be read, but not shown or walked through."""


def read(path: Path, what: str, error_type: type[UserError]) -> dict[str, Any]:
    """The content of a TOML file; empty if there is none. `what` names it in errors."""
    try:
        return parse(read_text(path).replace("\r\n", "\n"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise error_type(f"cannot read the {what} in {path}: {reason}; correct or delete the file") from error


def read_text(path: Path) -> str:
    """The text of a regular file of limited size."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, "it is larger than 1 MB")
    return content.decode("utf-8")


def parse(text: str) -> dict[str, Any]:
    """Parse TOML; ValueError if it is invalid or nested too deep."""
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        level = [one for one in level if isinstance(one, dict | list)]
    if level:
        raise ValueError("it is nested too deeply")
    return found


def write_value(value: object) -> str:
    """A value in TOML."""
    if isinstance(value, bool):  # before numbers, since bool is an int
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(write_lines(value)) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(write_value, value))}]"
    return repr(value)  # numbers; Python writes infinities as TOML does


def write_lines(values: Mapping[str, object]) -> list[str]:
    """Named values as lines of TOML."""
    return [f"{name} = {write_value(value)}" for name, value in values.items()]
