"""The files of a version, fetched once for each node and believed by their digests only."""

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
"""Seconds for which a source of the files is looked for."""
PAUSE = 0.5


class Source(Protocol):
    """A folder that has the files of a version: one that nodes share, or another node's."""

    name: str

    def read(self, path: str, start: int) -> Iterator[bytes]:
        """A file from a place on; any error means that this source does not have it any more."""

    def close(self, good: bool) -> None:
        """Nothing more is wanted of it; whether all that came was right."""


class FolderSource:
    """A folder that this node reaches as its own."""

    def __init__(self, folder: Path):
        self.folder, self.name = folder, str(folder)

    def read(self, path: str, start: int) -> Iterator[bytes]:
        return read_pieces(self.folder, path, start)

    def close(self, good: bool) -> None: ...


def read_pieces(folder: Path, path: str, start: int) -> Iterator[bytes]:
    """A file of a folder, piece by piece."""
    with (folder / path).open("rb") as file:
        file.seek(start)
        while piece := file.read(PIECE):
            yield piece


Find = Callable[[], Source | None]
"""A source that may be asked now; None where all that there are have enough to do."""


class Here(Exception):
    """Another process of this node has fetched the files meanwhile."""


def provide(store: Store, version: Version, find: Find, patience: float = PATIENCE) -> StoredModel:
    """The version's model in the store of this node: fetched now, unless another process of the node has done so."""
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
    """Fetch a file, from one source after the other, each going on where the last one ended."""
    target = folder / file.path
    if not target.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{name} has a file {file.path!r} outside of its folder: it is not fetched")
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
                except Exception as error:  # a node that has ended, a folder that is gone
                    failed = f"{source.name}: {error}"
                finally:
                    source.close(good)
                if good:
                    return
                if start >= file.size:  # all is there, and wrong: nobody knows whose part was
                    known, start = hashlib.sha256(), 0
                    written.seek(0)
                    written.truncate()
            if time.monotonic() > end:
                raise InputError(f"{file.path} of {name} ({size(file.size)}) cannot be fetched: {failed}")
            time.sleep(PAUSE)
