"""Checkpoints that were pulled: `checkpoints/NAME/` in the store, complete as soon as it has this name."""

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from model_store.errors import ModelNotFound, StoreError
from model_store.hub.catalog import catalog, refer
from model_store.hub.file_selection import NAMES, check_entry
from model_store.hub.partial import Wanted
from model_store.local.imported import LINK
from model_store.upkeep import blobs
from model_store.upkeep.disk import freed_by, link_or_copy, own, read_json, sync, write_json
from model_store.upkeep.locks import alone

FOLDER = "checkpoints"
MANIFEST = "pull.json"
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
"""What a name can be that `refer` gives."""


def checkpoint(root: Path, name: str) -> Path:
    """Where the checkpoint called `name` is, or would be."""
    return own(root, FOLDER, name)


def unfinished(root: Path, name: str) -> Path:
    """Where it is while it is being fetched: whole files named after their digests, and parts of others."""
    return own(root, FOLDER, f".{name}.partial")


def folders(root: Path, *, unfinished: bool = False) -> list[Path]:
    """The folders of complete checkpoints; those of others that may become complete as well, if asked for."""
    every = [path.parent for path in sorted((root / FOLDER).glob(f"*/{MANIFEST}")) if not path.parent.is_symlink()]
    return [
        folder
        for folder in every
        if not folder.name.startswith(".") or (unfinished and folder.suffix in (".partial", ".old"))
    ]


def names(root: Path) -> list[str]:
    """Every complete checkpoint."""
    for old in (root / FOLDER).glob(".*.old"):
        mend(root, old.name[1:].removesuffix(".old"))
    return [folder.name for folder in folders(root)]


def mend(root: Path, name: str) -> None:
    """Go back to the revision before, where a process was killed in the moment between that and the next."""
    old, target = own(root, FOLDER, f".{name}.old"), checkpoint(root, name)
    with suppress(OSError, StoreError), alone(root, name, "mending"):
        if not target.exists():
            old.rename(target)


@contextmanager
def blobs_alone(root: Path) -> Iterator[None]:
    """Be the only one for a moment to say which blobs are needed, or to delete one."""
    with alone(root, blobs.FOLDER, "keeping files", lambda owner: None):
        yield


def begun(root: Path, name: str) -> bool:
    """Whether the checkpoint called `name` is here, whole or not."""
    return any((folder / MANIFEST).exists() for folder in (checkpoint(root, name), unfinished(root, name)))


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


def source(folder: Path) -> dict[str, Any]:
    """Where the checkpoint in `folder` was pulled from: `repository`, `commit`, `licence`; empty if it was not."""
    facts = read_json(folder / MANIFEST) if (folder / MANIFEST).is_file() else {}
    return {name: value for name, value in facts.items() if name != "files"}


def begin(root: Path, name: str, facts: dict[str, Any], files: Sequence[Wanted]) -> Path:
    """The folder to fetch `files` into, with what an earlier attempt left or another checkpoint has."""
    folder = unfinished(root, name)
    folder.mkdir(parents=True, exist_ok=True)
    for file in listed(folder):  # an earlier attempt may have been stopped while it gave the files their names
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


def publish(root: Path, name: str) -> Path:
    """Give the fetched files their names and the folder its own: from then on the checkpoint is there."""
    folder = unfinished(root, name)
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
    link_graph(folder)
    return install(root, folder, name)


def link_graph(folder: Path) -> None:
    """Let a complete folder stand for the exported graph that its manifest names, if it does."""
    if graph := read_json(folder / MANIFEST).get("graph"):
        if graph not in {file.name for file in listed(folder)}:
            raise altered(folder, "a graph that is not among its files")
        write_json(folder / LINK, {"file": graph})


def install(root: Path, folder: Path, name: str) -> Path:
    """Give a complete folder its name, in place of an older one, and its files to the blobs."""
    target, old = checkpoint(root, name), own(root, FOLDER, f".{name}.old")
    with blobs_alone(root):
        for file in listed(folder):
            blobs.keep(root, folder / file.name, file)
        sync(folder)
        sync(root / blobs.FOLDER)
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        folder.rename(target)
        sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    return target


def copy(root: Path, name: str, new: str) -> None:
    """The same checkpoint under another name: its files are names of the same blobs."""
    source, folder = checkpoint(root, name), unfinished(root, new)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_json(folder / MANIFEST, read_json(source / MANIFEST))
    for file in listed(source):
        (folder / file.name).parent.mkdir(exist_ok=True)
        link_or_copy(source / file.name, folder / file.name)
    link_graph(folder)
    install(root, folder, new)


def remove(root: Path, name: str) -> int | None:
    """Delete a pulled checkpoint, whole or not, and the blobs that no other has; the bytes freed, None if none is.

    The caller is alone with the model.
    """
    target, gone = checkpoint(root, name), own(root, FOLDER, f".{name}.gone")
    with blobs_alone(root):
        shutil.rmtree(gone, ignore_errors=True)
        if target.exists():
            target.rename(gone)  # at once, so that half a checkpoint is never found
        found = [folder for folder in (gone, unfinished(root, name)) if folder.exists()]
        freed = 0
        for folder in found:
            freed += freed_by(folder)
            shutil.rmtree(folder)
        with suppress(StoreError):  # another manifest was altered: who knows which blobs it needs
            freed += blobs.sweep(root)
    return freed if found else None


def listed(folder: Path) -> list[Wanted]:
    """The files in the manifest of `folder`, which somebody may have edited."""
    if not (folder / MANIFEST).exists():
        return []
    content = read_json(folder / MANIFEST)
    try:
        files = content["files"]
        found = [check_entry(name, facts["size"], facts["digest"]) for name, facts in files.items()]
    except (KeyError, TypeError, AttributeError, StoreError) as error:
        raise altered(folder, str(error)) from error
    if any(not NAMES.fullmatch(file.name) for file in found):
        raise altered(folder, "a file in another folder")
    return found


def altered(folder: Path, what: str) -> StoreError:
    """The error for a manifest that is not as it was written."""
    return StoreError(f"{folder / MANIFEST} was altered ({what}); delete the folder {folder}")
