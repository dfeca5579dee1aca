"""`gc`: garbage in the store, whoever left it."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import backends
from model_store import variants
from model_store.disk import freed_by, own, walk
from model_store.errors import StoreError
from model_store.hub import blobs
from model_store.location import CHECKPOINTS, Location
from model_store.locks import BLOBS, PREFIX, alone
from model_store.models import BUILTIN, is_name
from model_store.store import Store

STALE = 7 * 24 * 3600.0
"""Seconds after which a stopped pull is not expected to go on."""
TEMPORARY = re.compile(r"\.(.+\.json\.\d+|\.?reference-\d+\.npz)")
"""Names of files that are being written."""


@dataclass(frozen=True)
class Garbage:
    """A file or folder that can be deleted."""

    path: Path
    size: int
    """Bytes that deleting it frees."""
    why: str


def collect(
    store: Store, *, dry_run: bool = False, now: float | None = None, warn: Callable[[str], None] = lambda reason: None
) -> list[Garbage]:
    """Delete what nobody needs, or only find it; what another process works on is left out.

    `warn` is told of an altered manifest, for which everything that it may need stays, its model's files or the blobs,
    and of a folder of models that cannot be written to.
    """
    found: list[Garbage] = []
    for root in store.roots:
        if not root.is_dir():
            continue
        if not os.access(root, os.W_OK):  # another user's, or a read-only disk
            warn(f"{root} cannot be written to, and is left as it is")
            continue
        for name in every_name(root):
            location = Location(root, name)
            with suppress(StoreError), alone(location, "collecting garbage"), telling(warn):  # otherwise it is in use
                found += sweep(of_model(location, time.time() if now is None else now), dry_run)
        if own(root, BLOBS).is_dir():
            with blobs.alone_with_blobs(root), telling(warn):
                found += sweep((at(path, "no model has it") for path in blobs.unreferenced(root)), dry_run)
    return found


@contextmanager
def telling(warn: Callable[[str], None]) -> Iterator[None]:
    """Context that reports errors to `warn`, and goes on."""
    try:
        yield
    except StoreError as error:
        warn(str(error))


def every_name(root: Path) -> list[str]:
    """The names of all models that have any file."""
    names = {path.name for path in root.iterdir() if path.is_dir() and not path.is_symlink()}
    parts = [path.name for path in (root / CHECKPOINTS).glob("*")] + [name for name in names if name.endswith(".gone")]
    names |= {re.sub(r"\.(partial|old|gone)$", "", part.removeprefix(".")) for part in parts}
    return sorted(name for name in names if is_name(name))


def of_model(location: Location, now: float) -> Iterator[Garbage]:
    """The garbage of a model."""
    folder, whole = location.folder, location.checkpoint.is_dir()
    for gone in (location.removed, location.removed_checkpoint):
        if gone.is_dir():
            yield at(gone, "its model was removed")
    if whole and location.replaced.is_dir():
        yield at(location.replaced, "there is a newer revision")
    partial = location.partial
    if partial.is_dir() and now - max([partial.stat().st_mtime, *(file.st_mtime for file in walk(partial))]) > STALE:
        yield at(partial, "its pull was stopped more than a week ago")
    if not folder.is_dir():
        return
    kept = location.manifest, location.imported
    if not whole and location.name != BUILTIN and not any(path.exists() for path in kept):
        yield at(folder, "it belongs to no model")
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith(PREFIX) or TEMPORARY.fullmatch(path.name):
            yield at(path, "it was never finished")
        elif why := superseded(path):
            yield at(path, why)


def superseded(path: Path) -> str:
    """Why a variant or a converted tokenizer is obsolete; "" if it is not."""
    from model_store.tokenizers import tokenizer

    if path.name.startswith("tokenizer-"):
        current = path.name == f"tokenizer-{tokenizer.REVISION}.json"
        return "" if current else "it was made by another version"
    backend = path.name.partition("-")[0]
    if backend not in backends.NAMES or path.is_symlink() or not path.is_dir():
        return ""
    variant = variants.read(path)
    if variant is None:
        return "it is not whole"
    with suppress(backends.BackendError):  # its runtime is not installed: unknown
        if variant.signature != (current_one := backends.get(backend).signature()):
            return f"it was lowered for {variant.signature}, and here is {current_one}"
    return ""


def at(path: Path, why: str) -> Garbage:
    """A file or folder that can be deleted."""
    if path.is_dir() and not path.is_symlink():
        return Garbage(path, freed_by(path), why)
    status = path.lstat()
    return Garbage(path, status.st_size if status.st_nlink == 1 else 0, why)


def sweep(found: Iterator[Garbage], dry_run: bool) -> list[Garbage]:
    """Delete what was found, unless it is a dry run."""
    every = list(found)
    if not dry_run:
        for one in every:
            delete: Callable[[Path], object] = shutil.rmtree if one.path.is_dir() else Path.unlink
            delete(one.path)
    return every
