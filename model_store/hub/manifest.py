"""Manifests of pulled checkpoints: their source and files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model_store.errors import StoreError
from model_store.files import read_manifest
from model_store.hub.catalog import spell
from model_store.hub.file_selection import NAMES, check_entry
from model_store.hub.partial import Wanted
from model_store.location import CHECKPOINTS

MANIFEST = "pull.json"


def folders(root: Path, *, unfinished: bool = False) -> list[Path]:
    """The folders of complete checkpoints; if `unfinished`, also of incomplete ones."""
    every = [path.parent for path in sorted((root / CHECKPOINTS).glob(f"*/{MANIFEST}")) if not path.parent.is_symlink()]
    return [
        folder
        for folder in every
        if not folder.name.startswith(".") or (unfinished and folder.suffix in (".partial", ".old"))
    ]


def read_source(folder: Path) -> dict[str, Any]:
    """The source of a checkpoint: `repository`, `commit`, `licence`; {} if it was not pulled."""
    facts = read_manifest(folder / MANIFEST) if (folder / MANIFEST).is_file() else {}
    return {name: value for name, value in facts.items() if name != "files"}


def read_reference(folder: Path) -> str:
    """The source of a checkpoint as `pull` takes it: a repository, the requested quantisation and revision."""
    facts = read_source(folder)
    return spell(*(facts.get(name) for name in ("repository", "quantization", "revision")))


def read_files(folder: Path) -> list[Wanted]:
    """The files in a folder's manifest, which somebody may have edited."""
    if not (folder / MANIFEST).exists():
        return []
    content = read_manifest(folder / MANIFEST)
    try:
        files = content["files"]
        found = [check_entry(name, facts["size"], facts["digest"]) for name, facts in files.items()]
    except (KeyError, TypeError, AttributeError, StoreError) as error:
        raise altered(folder, str(error)) from error
    if any(not NAMES.fullmatch(file.name) for file in found):
        raise altered(folder, "a file in another folder")
    return found


def is_here(folder: Path, commit: str, files: Sequence[Wanted]) -> bool:
    """Whether a checkpoint is of this commit, with all files at their sizes."""
    there = ((folder / file.name, file.size) for file in files)
    return read_source(folder).get("commit") == commit and all(
        path.is_file() and path.stat().st_size == size for path, size in there
    )


def altered(folder: Path, what: str) -> StoreError:
    """The error for an altered manifest."""
    return StoreError(f"{folder / MANIFEST} was altered ({what}); delete the folder {folder}")
