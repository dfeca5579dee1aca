"""The store's disk: files are linked rather than copied, symbolic links never followed out, and it may be full."""

import errno
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from model_store.errors import StoreError

SPARE = 100_000_000
"""Bytes of the disk that are left free."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors that mean there is no room."""


def own(root: Path, *parts: str) -> Path:
    """A path in the store; raises StoreError if a symbolic link leads out of it."""
    path = root
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise StoreError(f"{path} is a symbolic link, which the store does not allow; delete the link")
    return path


def walk(folder: Path | str) -> Iterator[os.stat_result]:
    """Yield all files in a folder and below; links are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from walk(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False)


def size_of(folder: Path | str) -> int:
    """Bytes of a folder on disk, where hard links count once."""
    return sum({(file.st_dev, file.st_ino): file.st_size for file in walk(folder)}.values())


def freed_by(*folders: Path, kept: Path | None = None) -> int:
    """Bytes that deleting folders frees: not those of files with another name elsewhere, unless in `kept`."""
    names = Counter((file.st_dev, file.st_ino) for folder in folders for file in walk(folder))
    sizes = {(file.st_dev, file.st_ino): (file.st_size, file.st_nlink) for folder in folders for file in walk(folder)}
    more = {(file.st_dev, file.st_ino) for file in walk(kept)} if kept and kept.is_dir() else set()
    return sum(size for file, (size, links) in sizes.items() if links <= names[file] + (file in more))


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the disk has no links."""
    try:
        os.link(source, target)
    except OSError:
        copy = target.with_name(f"{target.name}.copy")
        with copy.open("wb") as written, source.open("rb") as original:
            shutil.copyfileobj(original, written)
            written.flush()
            os.fsync(written.fileno())
        shutil.copystat(source, copy)
        copy.replace(target)


def link_tree(source: Path, target: Path, *, but: str = "") -> None:
    """Link a folder, file by file, without folders in it that begin with `but`."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_dir() and not path.is_symlink() and not (but and path.name.startswith(but)):
            link_tree(path, target / path.name, but=but)
        elif path.is_file() and not path.is_symlink():
            link_or_copy(path, target / path.name)


def sync(folder: Path) -> None:
    """Flush a folder's names to disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Context for writing to a store; raises StoreError if that fails."""
    try:
        yield
    except OSError as error:
        what = (
            f"cannot write to the model store {root} ({error.strerror or error}); if it is shared, ask its owner, "
            "else set CHATAPP_HOME, or CHATAPP_STORES, to another folder"
        )
        if error.errno in FULL:
            disk = error.filename2 or error.filename or root  # in a copy, the second file is written
            what = f"the disk with {disk} is full; to free space: chatapp gc or chatapp rm"
        raise StoreError(what) from error


def amount(size: int) -> str:
    """Bytes, for messages."""
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())
