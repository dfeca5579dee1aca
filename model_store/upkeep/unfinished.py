"""Folders in the making, which are deleted when they are left unfinished."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from model_store.errors import StoreError
from model_store.upkeep.locks import alone

PREFIX = ".unfinished-"
"""How the names of folders in the making begin."""


@contextmanager
def unfinished(folder: Path) -> Iterator[Path]:
    """A new folder in `folder`, which disappears unless it is renamed."""
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def sweep(root: Path) -> None:
    """Delete what processes that were killed left in the folders of `root`."""
    for folder in {path.parent for path in root.glob(f"*/{PREFIX}*")}:
        # in use, removed meanwhile, or another user's
        with suppress(OSError, StoreError), alone(root, folder.name, "sweeping"):
            for left in folder.glob(f"{PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
