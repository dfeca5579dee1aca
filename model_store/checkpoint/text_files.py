"""Read small files whole: only regular files, and of each only so much as its kind can need."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MEGABYTE = 1 << 20
LARGEST = 64 * MEGABYTE
"""Bytes of a file whose name says nothing else."""
KINDS = {
    "tokenizer.json": 256 * MEGABYTE,  # the largest published ones have 35
    ".jinja": 4 * MEGABYTE,
    ".md": 4 * MEGABYTE,
    ".toml": 4 * MEGABYTE,
}
"""Bytes of a file by its name, or by the end of its name."""


def open_file(path: Path) -> BinaryIO:
    """A regular file, opened to be read; OSError where there is a device, a pipe or a folder, none of which ends."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a device, a pipe or a folder, and no file", str(path))
    return os.fdopen(handle, "rb")


def read_bytes(path: Path) -> bytes:
    """All of a file; OSError where it is larger than any of its kind."""
    most = KINDS.get(path.name) or KINDS.get(path.suffix, LARGEST)
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has more than {most // MEGABYTE} MB", str(path))
        return file.read(size)


def read_text(path: Path, errors: str = "strict") -> str:
    """All of a text in UTF-8, with the ends of lines as Python has them."""
    return read_bytes(path).decode("utf-8", errors).replace("\r\n", "\n").replace("\r", "\n")


def stays(path: Path) -> bool:
    """Whether a file is in its folder: no link leads elsewhere, but to the blobs of the Hub's cache."""
    target, folder = path.resolve(), path.parent.resolve()
    snapshots = next((above for above in (folder, *folder.parents) if above.name == "snapshots"), None)
    return folder in target.parents or (snapshots is not None and target.parent == snapshots.parent / "blobs")
