"""Exports a model to a new folder, all or nothing, and checks the export."""

import secrets
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from model_store import Progress, Store
from model_store.exports import ExportError, Finding, Source, Target

TARGETS = {
    "openvino": "chatapp.deploy.openvino",
    "onnx": "model_store.exports.onnx",
    "ovms": "chatapp.deploy.ovms",
    "gguf": "model_store.exports.gguf",
    "qaic": "model_store.exports.qaic",
    "triton": "chatapp.deploy.triton.target",
}
"""The module of each target; those in `chatapp.deploy` need to generate text."""


def get(name: str) -> Target:
    """The target of this name."""
    return cast(Target, import_module(TARGETS[name]))  # a module that meets the protocol


def open_source(store: Store, name: str) -> Source:
    """The model of this name as the source of an export."""
    model = store.get(name)
    return Source(model, store.tokenizer(model))


def export(
    source: Source, target: Target, folder: Path, options: Any, on_progress: Progress | None = None
) -> None:  # Any: each target's own
    """Write an export to `folder`, which must be new or empty; ExportError, before any work, if impossible."""
    check_empty(folder)
    target.refuse(source, options)
    try:
        unfinished = folder.parent / f".{folder.name}-{secrets.token_hex(4)}"
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise ExportError(f"cannot write {folder} ({error.strerror}); choose another folder") from error
    try:
        target.write(source, unfinished, options, on_progress)
        if folder.exists():
            folder.rmdir()
        unfinished.rename(folder)
    except OSError as error:
        raise ExportError(f"the export to {folder} failed ({error.strerror or error}); nothing was written") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def check_empty(folder: Path) -> None:
    """Raise ExportError unless the folder is new or empty."""
    if folder.exists() and not folder.is_dir():
        raise ExportError(f"{folder} is a file; choose a new folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise ExportError(f"{folder} is not empty; choose a new folder")


def check(source: Source, target: Target, folder: Path, options: Any) -> list[Finding]:  # Any: each target's own
    """Load an export, compare it with our own model, and return the findings."""
    if not folder.is_dir():
        raise ExportError(f"there is no folder {folder}")
    return target.check(source, folder, options)
