"""Downloads the files of a version once per node, verified by digest."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from chatapp.deploy.ray.version import PIECE, File, Version
from chatapp.text.errors import InputError
from chatapp.text.units import size
from model_store import Store, StoredModel

PATIENCE = 600.0
"""Seconds to look for a source of the files."""
PAUSE = 0.5


class Source(Protocol):
    """A folder with the files of a version: shared, or on another node."""

    name: str

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """A file from an offset on; any error means that the source is lost."""

    def close(self, good: bool) -> None:
        """The source is no longer needed; `good` if its files were right."""


class FolderSource:
    """A folder that this node can read directly."""

    def __init__(self, folder: Path):
        self.folder, self.name = folder, str(folder)

    def read(self, path: str, start: int) -> Iterator[bytes]:
        return read_pieces(self.folder, path, start)

    def close(self, good: bool) -> None: ...


def read_pieces(folder: Path, path: str, start: int) -> Iterator[bytes]:
    """A file in pieces, from an offset on."""
    with (folder / path).open("rb") as file:
        file.seek(start)
        while piece := file.read(PIECE):
            yield piece


Find = Callable[[], Source | None]
"""Finds a source that is free now; None if all are busy."""


class Here(Exception):
    """Another process on this node has downloaded the files meanwhile."""


def provide(store: Store, version: Version, find: Find, patience: float = PATIENCE) -> StoredModel:
    """The version's model in this node's store, downloaded if no process of this node has done so."""
    target = store.location(version.stored).imported

    def write(folder: Path) -> None:
        if target.is_dir():
            raise Here
        for file in version.files:
            fetch(folder, file, version.name, find, patience)

    if not target.is_dir():
        with suppress(Here):
            store.bring_in(version.stored, write)
    return store.register(version.stored, target)


def fetch(folder: Path, file: File, name: str, find: Find, patience: float) -> None:
    """Download a file, trying one source after another, each resuming where the last one ended."""
    target = folder / file.path
    if not target.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{name} has a file {file.path!r} outside its folder, which is refused")
    target.parent.mkdir(parents=True, exist_ok=True)
    known, start, failed, end = hashlib.sha256(), 0, "no node has it", time.monotonic() + patience
    with target.open("xb") as written:
        while True:
            if source := find():
                good = False
                try:
                    for piece in source.read(file.path, start):
                        start += len(piece)
                        if start > file.size:
                            break
                        written.write(piece)
                        known.update(piece)
                    good = start == file.size and known.hexdigest() == file.digest
                    failed = f"{source.name} has another file of this name"
                except Exception as error:  # the node has ended, or the folder is gone
                    failed = f"{source.name}: {error}"
                finally:
                    source.close(good)
                if good:
                    return
                if start >= file.size:  # complete but wrong: start over, since any source may be at fault
                    known, start = hashlib.sha256(), 0
                    written.seek(0)
                    written.truncate()
            if time.monotonic() > end:
                raise InputError(f"{file.path} of {name} ({size(file.size)}) cannot be copied: {failed}")
            time.sleep(PAUSE)
