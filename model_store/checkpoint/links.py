"""Checkpoints with weights elsewhere, in a GGUF file or an export; and fingerprints of checkpoints."""

import hashlib
import os
from pathlib import Path

from model_store.errors import UnsupportedCheckpoint
from model_store.files import open_file, read_json

LINK = "link.json"
"""The file with the path of the GGUF file or export, beside what was made of it."""


def linked(folder: Path) -> Path | None:
    """The GGUF file or exported graph that a folder's files belong to; None if they do not."""
    if not (folder / LINK).is_file():
        return None
    path = read_json(folder / LINK).get("file")
    if not isinstance(path, str):
        raise UnsupportedCheckpoint(f"{folder / LINK} names no file; remove the model and import it again")
    return folder / path


def linked_files(folder: Path) -> list[Path]:
    """What `linked` returns as a list, or the files in it if it is a folder."""
    path = linked(folder)
    if path and path.is_dir():
        return [inner for inner in path.rglob("*") if inner.is_file()]
    return [path] if path else []


def origin(folder: Path) -> Path:
    """The path of a model whose files are in `folder`."""
    return linked(folder) or folder


def fingerprint(folder: Path) -> str:
    """A digest of a checkpoint's file names, sizes, times and last bytes.

    The bytes are for archives that give every file the same time. Names need not be UTF-8.
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
