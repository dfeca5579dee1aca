"""Read the user's files, find free names, and write files whole or not at all."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import BinaryIO

from chatapp.text.errors import InputError


def expand(given: str) -> Path:
    """Expand a typed path's `~`; InputError if there is no such home folder."""
    try:
        return Path(given).expanduser()
    except RuntimeError as error:  # neither a variable nor the system's users have one
        raise InputError(f"there is no home folder for {Path(given).parts[0]}; give a path without it") from error


def read_input(file: str) -> str:
    """Read a file, or standard input for `-`."""
    name = "standard input" if file == "-" else file
    if not file:
        raise InputError("the path of the file is empty; give one, or - for standard input")
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}; check the path") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text (byte {error.start + 1:,}); convert it first") from error
    if "\0" in text:
        raise InputError(f"{name} is binary (a zero at byte {content.index(0) + 1:,}); give text")
    return text


def find_free(folder: Path, stem: str, ending: str) -> Path:
    """The path of a new file, with the first free number."""
    numbered = (folder / f"{stem}{f'-{number}' if number > 1 else ''}.{ending}" for number in count(1))
    return next(path for path in numbered if not path.exists())


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace the contents of `path` by `text`, whole or not at all; `mode` is for a new file."""
    with replacing(path, mode) as file:
        file.write(text.encode())


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Context with a file that replaces `path` at the end; after a failure `path` is unchanged.

    Links stay links, perhaps into a folder of dotfiles, and files stay as private as they were.
    """
    path = Path(os.path.realpath(path))
    temporary = path.parent / f".{path.name}.{os.getpid()}-{get_ident()}"
    try:
        with open(temporary, "wb", opener=partial(os.open, mode=mode)) as file:
            if path.exists():
                shutil.copymode(path, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename in (None, str(temporary)):  # a full disk names no file, and nobody knows the temporary one
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
