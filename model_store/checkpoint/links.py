"""Checkpoints whose weights are elsewhere, in a GGUF file or an export, and the fingerprint that tells of a change."""

import hashlib
import os
from pathlib import Path

from model_store.errors import UnsupportedCheckpoint
from model_store.files import open_file, read_json

LINK = "link.json"
"""Beside the files made of a GGUF file or copied from an export: where that is."""


def linked(folder: Path) -> Path | None:
    """The GGUF file or the exported graph that the files in `folder` belong to; None if they do not."""
    if not (folder / LINK).is_file():
        return None
    path = read_json(folder / LINK).get("file")
    if not isinstance(path, str):
        raise UnsupportedCheckpoint(f"{folder / LINK} names no file; remove the model, and import it anew")
    return folder / path


def linked_files(folder: Path) -> list[Path]:
    """The file that `linked` gives, or the files in it where that is a folder."""
    path = linked(folder)
    if path and path.is_dir():
        return [inner for inner in path.rglob("*") if inner.is_file()]
    return [path] if path else []


def origin(folder: Path) -> Path:
    """The place of a model that has its files in `folder`."""
    return linked(folder) or folder


def fingerprint(folder: Path) -> str:
    """The digest of the names, sizes, times and last bytes of the files of a checkpoint.

    The bytes are for archives that give every file the same time. Names need be no UTF-8.
    """
    digest = hashlib.sha256(str(folder).encode(errors="surrogateescape"))
    elsewhere = linked_files(folder)
    for path in sorted([*folder.iterdir(), *folder.glob("additional_chat_templates/*"), *elsewhere]):
        if path.suffix in (".json", ".safetensors", ".bin", ".txt", ".model", ".jinja") or path in elsewhere:
            with open_file(path) as file:
                status = os.fstat(file.fileno())
                file.seek(max(0, status.st_size - 4096))
                facts = f"{path.name} {status.st_size} {status.st_mtime_ns}"
                digest.update(facts.encode(errors="surrogateescape") + file.read())
    return digest.hexdigest()
