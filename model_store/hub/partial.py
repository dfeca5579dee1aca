"""A partly downloaded file: written, hashed, and resumed after whatever ended the process."""

import hashlib
import os
import queue
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from model_store.disk import FULL
from model_store.errors import StoreError

BLOCK = 1 << 20
"""Bytes read at once when a file is checked."""
BACKLOG = 16
"""Most chunks that may wait to be hashed."""
SAVE = 0.5
"""Seconds between two journal entries: the most that a power failure costs."""
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True)
class Wanted:
    """A file to download."""

    name: str
    size: int
    digest: str
    """SHA-256 (64 hexadecimal digits), or SHA-1 as in git (40)."""

    def hash(self) -> "hashlib._Hash":
        """A new hash object of the kind of `digest`."""
        if len(self.digest) == 64:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)


def count_arrived(folder: Path, wanted: Wanted) -> int:
    """The bytes of a file that are in a folder, complete or not."""
    for path in (folder / wanted.digest, folder / f"{wanted.digest}.part"):
        with suppress(OSError):  # missing, or just moved by another process
            return min(wanted.size, path.stat().st_size)
    return 0


class Partial:
    """The first bytes of a wanted file, in `DIGEST.part`.

    `DIGEST.journal` has a line for each time the bytes so far were flushed to disk: their number and digest. So nothing
    is downloaded twice, and nothing is trusted that the disk did not keep.
    """

    def __init__(self, wanted: Wanted, folder: Path):
        self.wanted = wanted
        self.path = folder / f"{wanted.digest}.part"
        self.journal = folder / f"{wanted.digest}.journal"
        self.whole = folder / wanted.digest
        self.length = 0
        """Bytes received."""
        self.hash, self.hashed, self.saved = wanted.hash(), 0, 0
        self.lock = threading.Lock()
        self.chunks: queue.Queue[bytes | None] = queue.Queue(BACKLOG)
        self.file = os.fdopen(os.open(self.path, FLAGS, 0o666), "r+b", 0)
        self.closing = threading.Event()
        self.failure: OSError | None = None
        self.hasher = threading.Thread(target=self.hash_chunks, name="hashing", daemon=True)
        self.saver = threading.Thread(target=self.save_often, name="saving", daemon=True)

    def begin(self) -> None:
        """Check what an earlier process left, and keep as much as the journal confirms."""
        good, after = 0, self.hash
        for length, digest in self.records():
            while self.hashed < length and (block := self.file.read(min(BLOCK, length - self.hashed))):
                self.hash.update(block)
                self.hashed += len(block)
                self.length = self.hashed
            if self.hashed != length or self.hash.hexdigest() != digest:
                break
            good, after = length, self.hash.copy()
        self.cut(good, after if good else self.wanted.hash())
        fresh = self.journal.with_suffix(".fresh")
        fresh.write_text(f"{good} {after.hexdigest()}\n" if good else "", "ascii")
        fresh.replace(self.journal)
        self.hasher.start()
        self.saver.start()

    def records(self) -> list[tuple[int, str]]:
        """The journal, shortest first."""
        found = []
        with suppress(OSError, UnicodeDecodeError):
            for line in self.journal.read_text("ascii").splitlines():
                length, _, digest = line.partition(" ")
                if length.isdecimal() and len(length) < 20 and 0 < int(length) <= self.wanted.size:
                    found.append((int(length), digest))
        if os.fstat(self.file.fileno()).st_size == self.wanted.size:  # it may be complete, whatever was recorded
            found.append((self.wanted.size, self.wanted.digest))
        return sorted(found)

    def cut(self, length: int, hash: "hashlib._Hash") -> None:
        """Keep only the first `length` bytes, with digest `hash`."""
        self.file.truncate(length)
        self.file.seek(length)
        self.hash, self.hashed, self.length, self.saved = hash, length, length, length

    def restart(self) -> None:
        """Forget every byte."""
        self.settle()
        self.journal.unlink(missing_ok=True)
        self.cut(0, self.wanted.hash())

    def write(self, chunk: bytes) -> None:
        """Append a chunk."""
        if self.failure:
            raise self.failure
        view = memoryview(chunk)
        while view:
            view = view[self.file.write(view) :]
        self.length += len(chunk)
        self.chunks.put(chunk)

    def hash_chunks(self) -> None:
        """Hash written chunks, in a thread beside the one that receives."""
        while (chunk := self.chunks.get()) is not None:
            with self.lock:
                self.hash.update(chunk)
                self.hashed += len(chunk)
            self.chunks.task_done()

    def settle(self) -> None:
        """Wait until everything written is hashed."""
        self.chunks.join()

    def save(self) -> None:
        """Flush received bytes to disk, and record them in the journal."""
        with self.lock:
            hashed, digest = self.hashed, self.hash.hexdigest()
        if hashed > self.saved:
            os.fsync(self.file.fileno())
            with self.journal.open("a", encoding="ascii") as journal:
                journal.write(f"{hashed} {digest}\n")
                journal.flush()
                os.fsync(journal.fileno())
            self.saved = hashed

    def save_often(self) -> None:
        """Save repeatedly, in a thread beside those that receive and hash."""
        try:
            while not self.closing.wait(SAVE):
                self.save()
        except OSError as error:
            self.failure = error

    def finish(self) -> bool:
        """Move the file to the complete ones, if its digest is right."""
        self.settle()
        if self.hash.hexdigest() != self.wanted.digest:
            return False
        self.saved = self.hashed  # the journal is no longer needed
        os.fsync(self.file.fileno())
        self.close()
        self.path.replace(self.whole)
        self.journal.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """Save, and close the file."""
        if self.closing.is_set():
            return
        self.closing.set()
        if self.hasher.ident:  # started
            self.chunks.put(None)
            self.hasher.join()
        if self.saver.ident:
            self.saver.join()
        with self.file:
            self.save()


def disk_error(folder: Path, error: OSError) -> StoreError:
    """The StoreError for a full disk, or for a folder that cannot be written to."""
    if error.errno in FULL:
        return StoreError(
            f"the disk with {folder} is full; free some space or set CHATAPP_HOME to a folder on a larger disk, "
            "then pull again: the downloaded part is kept"
        )
    return StoreError(
        f"cannot write to {error.filename or folder} ({error.strerror or error}); set CHATAPP_HOME to another folder"
    )
