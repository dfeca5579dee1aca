"""What the store keeps of models that were imported: files made of a GGUF file or copied from an export, or it all."""

from pathlib import Path

from model_store.checkpoint.json_files import read_json
from model_store.errors import UnsupportedCheckpoint

FOLDER = "checkpoint"
"""Of a model in the store: what was imported or copied. All else there can be made again."""
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
    """What `linked` says, or the files in it where that is a folder."""
    path = linked(folder)
    if path and path.is_dir():
        return [inner for inner in path.rglob("*") if inner.is_file()]
    return [path] if path else []


def origin(folder: Path) -> Path:
    """Where a model is that has its files in `folder`."""
    return linked(folder) or folder
