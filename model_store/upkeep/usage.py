"""`du`: each model's disk usage, and what it shares with others."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from model_store.disk import walk
from model_store.runtime_caches import caches_in
from model_store.store import Store

File = tuple[int, int]
"""A file's identity, whatever its names: its disk and its number there."""


@dataclass(frozen=True)
class Usage:
    """A model's bytes on disk; a checkpoint that is linked where it was counts as none."""

    name: str
    own: int
    """Bytes of its checkpoint that no other model shares."""
    shared: int
    """Bytes of its checkpoint or variants that another model shares."""
    variants: int
    """Bytes of its variants that no other model shares, with the runtimes' caches."""
    caches: int
    """Bytes of the runtimes' caches in the variants."""


def usage(store: Store) -> list[Usage]:
    """Each model's usage, by name; the built-in one's too, if it was lowered."""
    files: dict[str, tuple[dict[File, int], dict[File, int], int]] = {}
    for name, location in store.every_location().items():
        checkpoint = files_in(location.checkpoint) | files_in(location.imported)
        made = {file: size for file, size in files_in(location.folder).items() if file not in checkpoint}
        caches = sum(sum(files_in(folder).values()) for folder in caches_in(location.folder))
        files[name] = checkpoint, made, caches
    holders = Counter(file for checkpoint, made, _ in files.values() for file in {*checkpoint, *made})
    return [
        Usage(
            name,
            own=sum(size for file, size in checkpoint.items() if holders[file] == 1),
            shared=sum(size for file, size in (checkpoint | made).items() if holders[file] > 1),
            variants=sum(size for file, size in made.items() if holders[file] == 1),
            caches=caches,
        )
        for name, (checkpoint, made, caches) in files.items()
    ]


def total(store: Store) -> int:
    """Bytes of everything in the store, where each file counts once."""
    return sum({file: size for root in store.roots for file, size in files_in(root).items()}.values())


def files_in(folder: Path) -> dict[File, int]:
    """The files of a folder, if there is one, and their sizes."""
    return {(file.st_dev, file.st_ino): file.st_size for file in (walk(folder) if folder.is_dir() else ())}
