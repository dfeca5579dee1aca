"""Lowered variants in a model's folder, each in `BACKEND-PRECISION/`, complete when it has this name."""

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_store.errors import StoreError
from model_store.files import read_manifest
from model_store.models import Variant

FACTS = "variant.json"


def find(folder: Path) -> list[Variant]:
    """The complete variants of the model in `folder`."""
    with os.scandir(folder) as entries:
        paths = sorted(
            entry.path
            for entry in entries
            if "-" in entry.name and entry.name[0] != "." and entry.is_dir(follow_symlinks=False)
        )
    return [variant for path in paths if (variant := read(path))]


def read(folder: Path | str) -> Variant | None:
    """Read the variant in `folder`; None if there is no complete one."""
    path = f"{folder}/{FACTS}"
    if not os.path.exists(path):
        return None
    facts = read_manifest(path)
    here, size = contents(folder)
    written = facts.get("files")
    if not isinstance(written, dict) or any(here.get(name) != bytes for name, bytes in written.items()):
        return None  # a power failure, or half deleted
    backend, _, precision = os.path.basename(folder).partition("-")
    verdicts, made = facts.get("verdicts", {}), facts.get("made", {})
    if not isinstance(verdicts, dict) or not all(
        isinstance(verdict, dict) and isinstance(verdict.get("passed"), bool) for verdict in verdicts.values()
    ):
        raise StoreError(f"{path} was altered (its verdicts); delete the folder {folder}")
    try:
        seconds, signature = float(facts["seconds"]), str(facts["signature"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} was altered ({error}); delete the folder {folder}") from error
    made = made if isinstance(made, dict) else {}
    return Variant(backend, precision, Path(folder), size, seconds, verdicts, signature, made)


def contents(folder: Path | str) -> tuple[dict[str, int], int]:
    """The bytes of each file in a folder, and of all, where hard links count once; runtimes may add files later."""
    files, names = dict[str, int](), dict[int, int]()
    folders = [(str(folder), "")]
    for path, inside in folders:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, f"{inside}{entry.name}/"))
                elif f"{inside}{entry.name}" != FACTS:
                    status = entry.stat()
                    files[f"{inside}{entry.name}"] = names[status.st_ino] = status.st_size
    return files, sum(names.values())


def facts(folder: Path, signature: str, seconds: float, source: str) -> Mapping[str, Any]:
    """The facts kept of a new variant: the time of lowering, its size, its source."""
    made = {"by": f"chatapp {our_version()}", "time": time.time(), "of": source, "digest": digest(folder)}
    return {"signature": signature, "seconds": seconds, "files": contents(folder)[0], "made": made}


def digest(folder: Path) -> str:
    """SHA-256 of the names and bytes of the files that lowering wrote."""
    hash = hashlib.sha256()
    for name in sorted(contents(folder)[0]):
        with (folder / name).open("rb") as file:
            hash.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0".encode())
    return f"sha256-{hash.hexdigest()}"


def our_version() -> str:
    """The installed version of chatapp."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("chatapp")
    except PackageNotFoundError:  # run from source
        return "unreleased"
