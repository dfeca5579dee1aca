"""Pulled checkpoints: `checkpoints/NAME/` in the store, complete as soon as it has this name."""

import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from model_store.checkpoint.links import LINK
from model_store.disk import freed_by, link_or_copy, sync
from model_store.errors import ModelNotFound, StoreError
from model_store.files import read_manifest, write_json
from model_store.hub import blobs
from model_store.hub.catalog import refer
from model_store.hub.manifest import MANIFEST, altered, folders, read_files
from model_store.hub.partial import Wanted
from model_store.location import CHECKPOINTS, Location
from model_store.locks import BLOBS, alone

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
"""A name that `refer` can return."""


def names(root: Path) -> list[str]:
    """The names of the complete checkpoints."""
    for old in (root / CHECKPOINTS).glob(".*.old"):
        mend(Location(root, old.name[1:].removesuffix(".old")))
    return [folder.name for folder in folders(root)]


def mend(location: Location) -> None:
    """Restore the previous revision, if a process was killed while replacing it."""
    with suppress(OSError, StoreError), alone(location, "mending"):
        if not location.checkpoint.exists():
            location.replaced.rename(location.checkpoint)


def is_begun(location: Location) -> bool:
    """Whether a checkpoint is here, complete or not."""
    return any((folder / MANIFEST).exists() for folder in (location.checkpoint, location.partial))


def is_here(location: Location) -> bool:
    """Whether there is a complete checkpoint of exactly this name."""
    return PLAIN_NAME.fullmatch(location.name) is not None and (location.checkpoint / MANIFEST).exists()


def locate(roots: Sequence[Path], name: str) -> Location:
    """The location of a model in one of the store's folders: where it is, complete or not, or else the first."""
    every = [Location(root, name) for root in roots]
    return next((one for one in every if one.manifest.exists() or is_begun(one)), every[0])


def find(root: Path, text: str, *, unfinished: bool = False) -> str | None:
    """The name under which `text`, a name or a repository, was pulled; None if it is not here."""
    known = names(root)
    if unfinished:
        known += [path.name[1:].removesuffix(".partial") for path in (root / CHECKPOINTS).glob(".*.partial")]
    if text in known:
        return text
    with suppress(ModelNotFound):
        if (name := refer(text).name) in known:
            return name
    return None


def begin(location: Location, facts: dict[str, Any], files: Sequence[Wanted]) -> Path:
    """The folder to download `files` to, with what an earlier attempt or another checkpoint has of them."""
    root, folder = location.root, location.partial
    folder.mkdir(parents=True, exist_ok=True)
    for file in read_files(folder):  # an earlier attempt may have been stopped while naming them
        if (folder / file.name).exists():
            (folder / file.name).replace(folder / f"{file.digest}.part")
    told = {file.name: {"size": file.size, "digest": file.digest} for file in files}
    write_json(folder / MANIFEST, {**facts, "files": told, "time": time.time()})
    keep = {file.digest for file in files}
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)  # its files have been moved out
            continue
        stale = path.name != MANIFEST and path.name.partition(".")[0] not in keep  # of another revision
        if stale or path.is_symlink():
            path.unlink()
    for file in files:
        if not (folder / file.digest).exists() and (same := blobs.find(root, file)):
            link_or_copy(same, folder / file.digest)
    return folder


def publish(location: Location) -> Path:
    """Give downloaded files and their folder their names: now the checkpoint exists."""
    folder = location.partial
    named: dict[str, Path] = {}
    for file in read_files(folder):
        (folder / file.name).parent.mkdir(exist_ok=True)
        if file.digest in named:  # two names, one content
            link_or_copy(named[file.digest], folder / file.name)
        else:
            named[file.digest] = (folder / file.digest).replace(folder / file.name)
    for path in folder.iterdir():
        if path.is_file() and path.name not in {MANIFEST, *(file.name for file in read_files(folder))}:
            path.unlink()  # leftovers of other attempts
    complete(folder)
    return install(location, folder)


def complete(folder: Path) -> None:
    """Write what belongs to the exported graph or GGUF file that the manifest of a whole folder names, if it does."""
    if graph := read_manifest(folder / MANIFEST).get("graph"):
        if graph not in {file.name for file in read_files(folder)}:
            raise altered(folder, "a graph that is not among its files")
        if graph.endswith(".gguf"):
            from model_store import gguf  # slow to import

            return gguf.write_files(folder / graph, folder)
        write_json(folder / LINK, {"file": graph})


def install(location: Location, folder: Path) -> Path:
    """Give a complete folder its name, replacing an older one, and keep its files as blobs."""
    root, target, old = location.root, location.checkpoint, location.replaced
    with blobs.alone_with_blobs(root):
        for file in read_files(folder):
            blobs.keep(root, folder / file.name, file)
        sync(folder)
        sync(root / BLOBS)
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        folder.rename(target)
        sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    return target


def copy(location: Location, new: Location) -> None:
    """Copy a checkpoint to another name, as hard links to the same blobs."""
    source, folder = location.checkpoint, new.partial
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_json(folder / MANIFEST, read_manifest(source / MANIFEST))
    for file in read_files(source):
        (folder / file.name).parent.mkdir(exist_ok=True)
        link_or_copy(source / file.name, folder / file.name)
    complete(folder)
    install(new, folder)


def remove(location: Location) -> int | None:
    """Delete a pulled checkpoint, complete or not, and blobs of its own; returns the bytes freed, None if not here.

    The caller holds the model's lock.
    """
    target, gone = location.checkpoint, location.removed_checkpoint
    with blobs.alone_with_blobs(location.root):
        shutil.rmtree(gone, ignore_errors=True)
        if target.exists():
            target.rename(gone)  # at once, so that half a checkpoint is never found
        found = [folder for folder in (gone, location.partial) if folder.exists()]
        freed = 0
        for folder in found:
            freed += freed_by(folder)
            shutil.rmtree(folder)
        with suppress(StoreError):  # another manifest was altered: it may need any blob
            freed += blobs.sweep(location.root)
    return freed if found else None
