"""One process at a time works on a model; the others can tell which one, on what, and how far it is."""

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
"""The name of the lock of the blobs, which no model has."""
LOOK = 0.1
"""Seconds between two looks at whether another process is done."""
EVERY = 0.2
"""Seconds between two notes of how far the work is."""
RECORD = 1024
"""Bytes of a note: each is written over the last one, at once."""
PREFIX = ".unfinished-"
"""How the names of folders in the making begin."""
LOCKED = 1 << 30
"""The byte that Windows locks, far from what others read."""


@dataclass(frozen=True)
class Owner:
    """Who works on a model, and how far that is."""

    pid: int
    host: str
    since: float
    """In seconds of time.time()."""
    what: str
    step: str = ""
    share: float = 0.0

    def __str__(self) -> str:
        began = time.strftime("%H:%M:%S", time.localtime(self.since))
        done = f" ({self.step}, {self.share:.0%})" if self.step else ""
        return f"process {self.pid} on {self.host}, {self.what} since {began}{done}"


OnWait = Callable[[Owner | None], None]
"""Called again and again while another process, if it has said so yet, works on the model; may raise."""


class Held:
    """A lock that this process has."""

    def __init__(self, handle: int, what: str):
        self.handle, self.told = handle, 0.0
        self.owner = Owner(os.getpid(), platform.node(), time.time(), what)
        self.write(self.owner)

    def tell(self, step: str, share: float) -> None:
        """Let the others know how far the work is."""
        if time.monotonic() - self.told >= EVERY:
            self.told = time.monotonic()
            self.write(Owner(self.owner.pid, self.owner.host, self.owner.since, self.owner.what, step, share))

    def telling(self, on_progress: Progress | None) -> Progress:
        """A callback that tells the others and `on_progress`."""

        def tell(step: str, share: float) -> None:
            self.tell(step, share)
            if on_progress:
                on_progress(step, share)

        return tell

    def write(self, owner: Owner) -> None:
        """Write the note, for which a full disk may have no room: the lock holds without."""
        with suppress(OSError):
            os.lseek(self.handle, 0, os.SEEK_SET)
            os.write(self.handle, json.dumps(asdict(owner)).encode()[:RECORD].ljust(RECORD))


@contextmanager
def alone(location: Location, what: str, on_wait: OnWait | None = None) -> Iterator[Held]:
    """Be the only one to work on a model of a store; without `on_wait`, raise StoreError if another does.

    The system ends this when the process ends, however it does: nobody waits for the dead.
    The file stays, for were it deleted, two could hold it.
    """
    path = own(location.root, FOLDER, location.name)
    handle = open_lock(path, location)
    try:
        while not lock(handle):
            owner = read_owner(path)
            if on_wait is None:
                raise StoreError(
                    f"{location.name} is in use by {owner or 'another process'}; try again when that is done"
                )
            on_wait(owner)
            time.sleep(LOOK)
        yield Held(handle, what)
    finally:
        os.close(handle)


def open_lock(path: Path, location: Location) -> int:
    """The file of a lock, made where it is not there.

    A full disk may have no room for it: then a folder is locked in its place, so that room can be made, the store's
    for the blobs and another one for whoever deletes a model and then its blobs.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        root, name = location.root, location.name
        folders = (root,) if name == BLOBS else (path.parent, root / name, root / CHECKPOINTS)
        for folder in folders if error.errno in FULL else ():
            with suppress(OSError):  # not there; and Windows locks no folders
                return os.open(folder, os.O_RDONLY)
        raise


def working_on(location: Location) -> Owner | None:
    """Who works on a model now; looking takes the lock for a moment at most, and writes nothing."""
    path = own(location.root, FOLDER, location.name)
    try:
        with open(path, "r+b", 0) as file:
            return None if lock(file.fileno()) else read_owner(path)
    except OSError:  # nobody ever has
        return None


def read_owner(path: Path) -> Owner | None:
    """Who holds the lock at `path`, or did last."""
    try:
        return Owner(**json.loads(path.read_bytes()[:RECORD]))
    except (OSError, ValueError, TypeError, RecursionError):  # not written yet
        return None


def lock(handle: int) -> bool:
    """Lock an open file, unless another has."""
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
    """A new folder in `folder`, which disappears unless it is renamed; who may read the one may read the other."""
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
    made.chmod(stat.S_IMODE(folder.stat().st_mode))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def sweep(root: Path) -> None:
    """Delete what processes that were killed left in the folders of `root`."""
    for folder in {path.parent for path in root.glob(f"*/{PREFIX}*")}:
        # in use, removed meanwhile, or another user's
        with suppress(OSError, StoreError), alone(Location(root, folder.name), "sweeping"):
            for left in folder.glob(f"{PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
