"""`cache`: what runtimes keep beside lowered models for a quicker start; it can be deleted at any time."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from model_store import Store, StoreError
from model_store.upkeep.disk import own, size_of, walk
from model_store.upkeep.locks import alone

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


def caches(store: Store) -> list[Cache]:
    """All of them, the one not used for longest first."""
    found = []
    for name, root in {"builtin": store.root_of("builtin"), **store.names()}.items():
        for folder in caches_in(own(root, name)):
            with suppress(OSError):  # deleted meanwhile
                used = max((max(file.st_mtime, file.st_atime) for file in walk(folder)), default=0.0)
                found.append(Cache(name, folder.parent.name, folder, size_of(folder), used))
    return sorted(found, key=lambda one: one.used)


def caches_in(folder: Path) -> list[Path]:
    """The compiled models of the model in `folder`."""
    every = folder.glob(f"[!.]*-*/{PREFIX}*")
    return sorted(path for path in every if path.is_dir() and not path.is_symlink() and not path.parent.is_symlink())


def clear(store: Store, names: Sequence[str] = ()) -> list[Cache]:
    """Delete those of some models, or all; what was deleted. Models in use are left out."""
    return delete(store, [one for one in caches(store) if not names or one.model in names])


def trim(store: Store, limit: int = LIMIT) -> list[Cache]:
    """Delete those not used for longest until the rest is small enough; what was deleted."""
    found = caches(store)
    excess, chosen = sum(one.size for one in found) - limit, []
    for one in found:
        if excess > 0:
            chosen.append(one)
            excess -= one.size
    return delete(store, chosen)


def delete(store: Store, chosen: Sequence[Cache]) -> list[Cache]:
    """Delete compiled models, but for those of models that another process works on."""
    deleted = []
    for one in chosen:
        with suppress(StoreError, OSError), alone(one.folder.parents[2], one.model, "clearing its cache"):
            shutil.rmtree(one.folder)
            deleted.append(one)
    return deleted
