"""Read TOML that a user wrote, or anybody else, and write values as it has them."""

import errno
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.errors import UserError

LARGEST = 1 << 20
"""Bytes of a file."""

DEEPEST = 20
"""Tables and lists in each other: what is deeper can be read, but neither shown nor walked through."""


def read(path: Path, what: str, error_type: type[UserError]) -> dict[str, Any]:
    """Read what a file holds, nothing where there is none."""
    try:
        return parse(read_text(path).replace("\r\n", "\n"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise error_type(f"cannot read the {what} in {path}: {reason}; mend or delete the file") from error


def read_text(path: Path) -> str:
    """The text of a file, which is no device and of no more bytes than a user would write."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a device, a pipe or a folder, and no file")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(errno.EFBIG, "it has more than 1 MB")
    return content.decode("utf-8")


def parse(text: str) -> dict[str, Any]:
    """Parse a text; raises ValueError for what is no TOML, or nested too deep."""
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
        level = [one for one in level if isinstance(one, dict | list)]
    if level:
        raise ValueError("it is nested too deep")
    return found


def write_value(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):  # which is a number, too
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(write_lines(value)) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(write_value, value))}]"
    return repr(value)  # of numbers, infinities among them


def write_lines(values: Mapping[str, object]) -> list[str]:
    """Values with their names, each as a line of TOML."""
    return [f"{name} = {write_value(value)}" for name, value in values.items()]
