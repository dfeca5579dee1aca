"""Read TOML that a user wrote, or anybody else."""

import errno
import tomllib
from pathlib import Path
from typing import Any

LARGEST = 1 << 20
"""Bytes of a file."""

DEEPEST = 20
"""Tables and lists in each other: what is deeper can be read, but neither shown nor walked through."""


def read(path: Path) -> dict[str, Any]:
    """Read a file, nothing where there is none; raises OSError or ValueError otherwise."""
    try:
        return parse(read_text(path).replace("\r\n", "\n"))
    except (FileNotFoundError, NotADirectoryError):
        return {}


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
