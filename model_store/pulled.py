"""Checkpoints that were pulled: `checkpoints/NAME/` in the store, complete as soon as it has this name."""

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from model_store import read_json, write_json
from model_store.catalog import catalog, refer
from model_store.choice import PLAIN, TEMPLATES, check_entry
from model_store.errors import ModelNotFound, StoreError
from model_store.partial import BLOCK, Wanted

FOLDER = "checkpoints"
MANIFEST = "pull.json"
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
"""What a name can be that `refer` gives."""


def checkpoint(root: Path, name: str) -> Path:
    """Where the checkpoint called `name` is, or would be."""
    return root / FOLDER / name


def unfinished(root: Path, name: str) -> Path:
    """Where it is while it is being fetched: whole files named after their digests, and parts of others."""
    return root / FOLDER / f".{name}.partial"


def names(root: Path) -> list[str]:
    """Every complete checkpoint."""
    return [path.parent.name for path in (root / FOLDER).glob(f"[!.]*/{MANIFEST}")]


def is_here(root: Path, name: str) -> bool:
    """Whether there is a complete checkpoint of exactly this name."""
    return PLAIN_NAME.fullmatch(name) is not None and (checkpoint(root, name) / MANIFEST).exists()


def find(root: Path, text: str, *, unfinished: bool = False) -> str | None:
    """The name under which `text` was pulled: itself, or a repository's; None if that is not here."""
    known = names(root)
    if unfinished:
        known += [path.name[1:].removesuffix(".partial") for path in (root / FOLDER).glob(".*.partial")]
    if text in known:
        return text
    with suppress(ModelNotFound):
        if (name := refer(text).name) in known:
            return name
    return None


def can_be_pulled(text: str) -> bool:
    """Whether `text` is in the catalogue; what merely looks like a repository may be a path."""
    return text.lower() in catalog()


def commit(folder: Path) -> str | None:
    """The commit of the checkpoint in `folder`; None if there is none."""
    return read_json(folder / MANIFEST).get("commit") if (folder / MANIFEST).exists() else None


def has(folder: Path, files: Sequence[Wanted]) -> bool:
    """Whether each file is in `folder` with the size it should have."""
    return all((folder / file.name).is_file() and (folder / file.name).stat().st_size == file.size for file in files)


def begin(root: Path, name: str, facts: dict[str, Any], files: Sequence[Wanted]) -> Path:
    """The folder to fetch `files` into, with what an earlier attempt left or another checkpoint has."""
    folder = unfinished(root, name)
    folder.mkdir(parents=True, exist_ok=True)
    for file in listed(folder):  # an earlier attempt may have been stopped while it gave the files their names
        if (folder / file.name).exists():
            (folder / file.name).replace(folder / f"{file.digest}.part")
    told = {file.name: {"size": file.size, "digest": file.digest} for file in files}
    write_json(folder / MANIFEST, {**facts, "files": told})
    keep = {file.digest for file in files}
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)  # its files have been moved out
            continue
        stale = path.name != MANIFEST and path.name.partition(".")[0] not in keep  # of another revision
        if stale or path.is_symlink():
            path.unlink()
    for file in files:
        if not (folder / file.digest).exists() and (same := elsewhere(root, file)):
            link_or_copy(same, folder / file.digest)
    return folder


def publish(root: Path, name: str) -> Path:
    """Give the fetched files their names and the folder its own: from then on the checkpoint is there."""
    folder, target, old = unfinished(root, name), checkpoint(root, name), root / FOLDER / f".{name}.old"
    named: dict[str, Path] = {}
    for file in listed(folder):
        (folder / file.name).parent.mkdir(exist_ok=True)
        if file.digest in named:  # two names, one content
            link_or_copy(named[file.digest], folder / file.name)
        else:
            named[file.digest] = (folder / file.digest).replace(folder / file.name)
    for path in folder.iterdir():
        if path.is_file() and path.name not in {MANIFEST, *(file.name for file in listed(folder))}:
            path.unlink()  # parts of what came in another way
    sync(folder)
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    folder.rename(target)
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)
    return target


def remove(root: Path, name: str) -> int | None:
    """Delete a pulled checkpoint, whole or not; the bytes freed, None if there is none."""
    freed, target, gone = 0, checkpoint(root, name), root / FOLDER / f".{name}.old"
    if target.exists():
        target.rename(gone)  # at once, so that half a checkpoint is never found
    folders = [folder for folder in (gone, unfinished(root, name)) if folder.exists()]
    for folder in folders:
        found = [path.stat() for path in folder.rglob("*") if path.is_file()]
        freed += sum(status.st_size for status in found if status.st_nlink == 1)
        shutil.rmtree(folder)
    return freed if folders else None


def listed(folder: Path) -> list[Wanted]:
    """The files in the manifest of `folder`, which somebody may have edited."""
    if not (folder / MANIFEST).exists():
        return []
    try:
        files = read_json(folder / MANIFEST)["files"]
        found = [check_entry(name, facts["size"], facts["digest"]) for name, facts in files.items()]
    except (KeyError, TypeError, AttributeError) as error:
        raise altered(folder, str(error)) from error
    if any(not PLAIN.fullmatch(file.name) and not TEMPLATES.fullmatch(file.name) for file in found):
        raise altered(folder, "a file in another folder")
    return found


def altered(folder: Path, what: str) -> StoreError:
    """The error for a manifest that is not as it was written."""
    return StoreError(f"{folder / MANIFEST} was altered ({what}); delete the folder {folder}")


def elsewhere(root: Path, file: Wanted) -> Path | None:
    """The same file in another checkpoint, its bytes compared with the digest."""
    for manifest in sorted((root / FOLDER).glob(f"[!.]*/{MANIFEST}")):
        with suppress(StoreError, OSError):
            for other in listed(manifest.parent):
                path = manifest.parent / other.name
                if (other.digest, other.size) == (file.digest, file.size) and is_whole(path, file):
                    return path
    return None


def is_whole(path: Path, wanted: Wanted) -> bool:
    """Whether the file at `path` has the bytes that are wanted."""
    hash = wanted.hash()
    if path.stat().st_size != wanted.size:
        return False
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            hash.update(block)
    return hash.hexdigest() == wanted.digest


def link_or_copy(source: Path, target: Path) -> None:
    """The same file under another name; a copy where the disk knows no links."""
    try:
        os.link(source, target)
    except OSError:
        with target.with_suffix(".copy").open("wb") as copy, source.open("rb") as original:
            shutil.copyfileobj(original, copy)
            copy.flush()
            os.fsync(copy.fileno())
        target.with_suffix(".copy").replace(target)


def sync(folder: Path) -> None:
    """Force the names in a folder onto the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
