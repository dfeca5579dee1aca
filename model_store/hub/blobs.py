"""Blobs, `blobs/sha256-DIGEST`: pulled files, each once; models' files are hard links to them.

The users of a blob are not stored, but follow from the manifests. Where the disk has no links there are no blobs, only
the files in the models' folders.
"""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from model_store.disk import own
from model_store.errors import StoreError
from model_store.hub import manifest
from model_store.hub.partial import BLOCK, Wanted
from model_store.location import Location
from model_store.locks import BLOBS, alone

NAME = re.compile(r"\.?(sha256-[0-9a-f]{64}|sha1-[0-9a-f]{40})")
"""The name of a blob; with a dot, of one that is being linked."""


def blob(root: Path, digest: str) -> Path:
    """The path of the blob with this digest: SHA-256, or SHA-1 as in git."""
    return own(root, BLOBS, f"{'sha256' if len(digest) == 64 else 'sha1'}-{digest}")


def keep(root: Path, file: Path, wanted: Wanted) -> None:
    """Make a verified file a blob."""
    target = blob(root, wanted.digest)
    target.parent.mkdir(exist_ok=True)
    if target.exists() and target.samefile(file):
        return
    fresh = target.with_name(f".{target.name}")
    fresh.unlink(missing_ok=True)
    with suppress(OSError):  # no links on this disk
        os.link(file, fresh)
        fresh.replace(target)


def find(root: Path, wanted: Wanted) -> Path | None:
    """A file in the store with the wanted bytes, which are verified."""
    for path in holders(root, wanted.digest):
        with suppress(OSError):
            if not path.is_symlink() and is_whole(path, wanted):
                return path
    return None


def holders(root: Path, digest: str) -> Iterator[Path]:
    """The blob, then files that should be the same."""
    yield blob(root, digest)
    for folder in manifest.folders(root):
        with suppress(StoreError):
            yield from (folder / file.name for file in manifest.read_files(folder) if file.digest == digest)


def references(root: Path) -> set[str]:
    """The names of all blobs in manifests; raises StoreError for an altered manifest."""
    found = (file for folder in manifest.folders(root, unfinished=True) for file in manifest.read_files(folder))
    return {blob(root, file.digest).name for file in found}


def unreferenced(root: Path) -> list[Path]:
    """The blobs in no manifest; the caller holds the blobs' lock."""
    folder = own(root, BLOBS)
    if not folder.is_dir():
        return []
    used = references(root)
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name) and path.name not in used)


def sweep(root: Path) -> int:
    """Delete the blobs in no manifest; returns the bytes freed. The caller holds the blobs' lock."""
    freed = 0
    for path in unreferenced(root):
        status = path.lstat()
        path.unlink()
        freed += status.st_size if status.st_nlink == 1 else 0
    return freed


def is_whole(path: Path, wanted: Wanted) -> bool:
    """Whether a file has the wanted bytes."""
    hash = wanted.hash()
    if path.stat().st_size != wanted.size:
        return False
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            hash.update(block)
    return hash.hexdigest() == wanted.digest


def alone_with_blobs(root: Path) -> AbstractContextManager[object]:
    """Hold the blobs' lock, to decide which are needed, or to delete one."""
    return alone(Location(root, BLOBS), "keeping files", lambda owner: None)
