"""`cache`: models that runtimes have compiled for a faster start; they can be deleted at any time."""

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
"""The prefix of folders of compiled models, in a variant's folder."""
LIMIT = 8_000_000_000
"""Most bytes of all compiled models; beyond, the least recently used are deleted."""


@dataclass(frozen=True)
class Cache:
    """A compiled model."""

    model: str
    variant: str
    folder: Path
    size: int
    used: float
    """When it was last used, as far as the disk tells."""


def caches(locations: Iterable[Location]) -> list[Cache]:
    """The compiled models at some locations, least recently used first."""
    found = []
    for location in locations:
        for folder in caches_in(location.folder):
            with suppress(OSError):  # deleted meanwhile
                used = max((max(file.st_mtime, file.st_atime) for file in walk(folder)), default=0.0)
                found.append(Cache(location.name, folder.parent.name, folder, size_of(folder), used))
    return sorted(found, key=lambda one: one.used)


def caches_in(folder: Path) -> list[Path]:
    """The folders of compiled models in a model's folder."""
    every = folder.glob(f"[!.]*-*/{PREFIX}*")
    return sorted(path for path in every if path.is_dir() and not path.is_symlink() and not path.parent.is_symlink())


def trim(locations: Iterable[Location], limit: int = LIMIT) -> list[Cache]:
    """Delete the least recently used until the rest fits; returns the deleted ones."""
    found = caches(locations)
    excess, chosen = sum(one.size for one in found) - limit, []
    for one in found:
        if excess > 0:
            chosen.append(one)
            excess -= one.size
    return delete(chosen)


def delete(chosen: Iterable[Cache]) -> list[Cache]:
    """Delete compiled models, except those of models that another process works on."""
    deleted = []
    for one in chosen:
        with suppress(StoreError, OSError), alone(Location(one.folder.parents[2], one.model), "clearing its cache"):
            shutil.rmtree(one.folder)
            deleted.append(one)
    return deleted
