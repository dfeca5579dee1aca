"""`cache`: what runtimes keep beside lowered models for a quicker start; it can be deleted at any time."""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from model_store.disk import size_of, walk
from model_store.errors import StoreError
from model_store.location import Location
from model_store.locks import alone

PREFIX = "compiled"
"""How the folders begin in which OpenVINO and Core ML keep compiled models, inside a variant's."""
LIMIT = 8_000_000_000
"""Bytes of all of them together, above which those not used for longest are deleted."""


@dataclass(frozen=True)
class Cache:
    """A compiled model."""

    model: str
    variant: str
    folder: Path
    size: int
    used: float
    """When it was last written or read, as far as the disk tells."""


def caches(locations: Iterable[Location]) -> list[Cache]:
    """The compiled models of the models at some locations, the one not used for longest first."""
    found = []
    for location in locations:
        for folder in caches_in(location.folder):
            with suppress(OSError):  # deleted meanwhile
                used = max((max(file.st_mtime, file.st_atime) for file in walk(folder)), default=0.0)
                found.append(Cache(location.name, folder.parent.name, folder, size_of(folder), used))
    return sorted(found, key=lambda one: one.used)


def caches_in(folder: Path) -> list[Path]:
    """The compiled models of the model in `folder`."""
    every = folder.glob(f"[!.]*-*/{PREFIX}*")
    return sorted(path for path in every if path.is_dir() and not path.is_symlink() and not path.parent.is_symlink())


def trim(locations: Iterable[Location], limit: int = LIMIT) -> list[Cache]:
    """Delete those not used for longest until the rest is small enough; what was deleted."""
    found = caches(locations)
    excess, chosen = sum(one.size for one in found) - limit, []
    for one in found:
        if excess > 0:
            chosen.append(one)
            excess -= one.size
    return delete(chosen)


def delete(chosen: Iterable[Cache]) -> list[Cache]:
    """Delete compiled models, but for those of models that another process works on."""
    deleted = []
    for one in chosen:
        with suppress(StoreError, OSError), alone(Location(one.folder.parents[2], one.model), "clearing its cache"):
            shutil.rmtree(one.folder)
            deleted.append(one)
    return deleted
