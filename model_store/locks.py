"""Locks: one process at a time works on a model; others can tell which, on what, and how far."""

import json
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from backends import Progress
from model_store.disk import FULL, own
from model_store.errors import StoreError
from model_store.location import CHECKPOINTS, Location

FOLDER = ".locks"
BLOBS = "blobs"
"""The name of the blobs' lock, which is no model's name."""
LOOK = 0.1
"""Seconds between two attempts to take a lock."""
EVERY = 0.2
"""Seconds between two records of progress."""
RECORD = 1024
"""Bytes of a record, which is overwritten in one write."""
PREFIX = ".unfinished-"
"""The prefix of unfinished folders."""
LOCKED = 1 << 30
"""The offset of the byte that Windows locks, far from what others read."""


@dataclass(frozen=True)
class Owner:
    """The process that works on a model, and its progress."""

    pid: int
    host: str
    since: float
    """When it was taken, as time.time() tells it."""
    what: str
    step: str = ""
    share: float = 0.0

    def __str__(self) -> str:
        began = time.strftime("%H:%M:%S", time.localtime(self.since))
        done = f" ({self.step}, {self.share:.0%})" if self.step else ""
        return f"process {self.pid} on {self.host}, {self.what} since {began}{done}"


OnWait = Callable[[Owner | None], None]
"""Called repeatedly while another process works on the model, with its record if there is one; may raise."""


class Held:
    """A lock that this process holds."""

    def __init__(self, handle: int, what: str):
        self.handle, self.told = handle, 0.0
        self.owner = Owner(os.getpid(), platform.node(), time.time(), what)
        self.write(self.owner)

    def tell(self, step: str, share: float) -> None:
        """Record progress for other processes."""
        if time.monotonic() - self.told >= EVERY:
            self.told = time.monotonic()
            self.write(Owner(self.owner.pid, self.owner.host, self.owner.since, self.owner.what, step, share))

    def telling(self, on_progress: Progress | None) -> Progress:
        """A callback that records progress and calls `on_progress`."""

        def tell(step: str, share: float) -> None:
            self.tell(step, share)
            if on_progress:
                on_progress(step, share)

        return tell

    def write(self, owner: Owner) -> None:
        """Write the record, if the disk has room; the lock holds without it."""
        with suppress(OSError):
            os.lseek(self.handle, 0, os.SEEK_SET)
            os.write(self.handle, json.dumps(asdict(owner)).encode()[:RECORD].ljust(RECORD))


@contextmanager
def alone(location: Location, what: str, on_wait: OnWait | None = None) -> Iterator[Held]:
    """Hold the lock of a model; without `on_wait`, raise StoreError if another process has it.

    The system releases it when the process ends, in whatever way. The lock file is never deleted: two processes could
    then hold locks on different files.
    """
    path = own(location.root, FOLDER, location.name)
    handle = open_lock(path, location)
    try:
        while not lock(handle):
            owner = read_owner(path)
            if on_wait is None:
                raise StoreError(
                    f"{location.name} is in use by {owner or 'another process'}; try again when it has finished"
                )
            on_wait(owner)
            time.sleep(LOOK)
        yield Held(handle, what)
    finally:
        os.close(handle)


def open_lock(path: Path, location: Location) -> int:
    """Open a lock's file, creating it if need be.

    If the disk has no room even for that, a folder is locked instead, so that room can be made: the store's for the
    blobs, and another one for whoever deletes a model and then its blobs.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        root, name = location.root, location.name
        folders = (root,) if name == BLOBS else (path.parent, root / name, root / CHECKPOINTS)
        for folder in folders if error.errno in FULL else ():
            with suppress(OSError):  # missing, or on Windows, which locks no folders
                return os.open(folder, os.O_RDONLY)
        raise


def working_on(location: Location) -> Owner | None:
    """Who works on a model now; looking takes the lock for a moment, and writes nothing."""
    path = own(location.root, FOLDER, location.name)
    try:
        with open(path, "r+b", 0) as file:
            return None if lock(file.fileno()) else read_owner(path)
    except OSError:  # never locked
        return None


def read_owner(path: Path) -> Owner | None:
    """Who holds, or last held, the lock at `path`."""
    try:
        return Owner(**json.loads(path.read_bytes()[:RECORD]))
    except (OSError, ValueError, TypeError, RecursionError):  # not written yet
        return None


def lock(handle: int) -> bool:
    """Lock an open file; False if another process has."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, LOCKED, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


@contextmanager
def unfinished(folder: Path) -> Iterator[Path]:
    """A new folder in `folder`, deleted at the end unless renamed; as readable as its parent."""
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
    made.chmod(stat.S_IMODE(folder.stat().st_mode))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def sweep(root: Path) -> None:
    """Delete what killed processes left in the folders of `root`."""
    for folder in {path.parent for path in root.glob(f"*/{PREFIX}*")}:
        # in use, removed meanwhile, or another user's
        with suppress(OSError, StoreError), alone(Location(root, folder.name), "sweeping"):
            for left in folder.glob(f"{PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
