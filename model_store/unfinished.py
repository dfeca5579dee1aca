"""One process at a time works in a model's folder, and what a killed one leaves unfinished is deleted."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PREFIX = ".unfinished-"
"""How the names of folders in the making begin."""
LOCK = ".lock"
LOOK = 0.1
"""Seconds between two looks at whether another process is done."""


@contextmanager
def alone(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Be the only one to work in `folder`; until another process is done, `on_wait` is called, which may raise.

    The system ends this when the process ends, however it does. The file stays: were it deleted, two could hold it.
    """
    with (folder / LOCK).open("w") as file:
        while not lock(file):
            on_wait()
            time.sleep(LOOK)
        yield


def sweep(root: Path) -> None:
    """Delete what processes that were killed left in the folders of `root`."""
    for folder in {path.parent for path in root.glob(f"*/{PREFIX}*")}:
        with suppress(OSError), (folder / LOCK).open("w") as file:  # removed meanwhile, or another user's
            if lock(file):
                for left in folder.glob(f"{PREFIX}*"):
                    shutil.rmtree(left, ignore_errors=True)


def lock(file: IO[str]) -> bool:
    """Lock an open file, unless another has."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
