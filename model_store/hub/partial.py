"""A file on its way: what has come is on the disk, hashed, and found again after whatever ended the process."""

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
"""Chunks that may wait to be hashed."""
SAVE = 0.5
"""Seconds between two notes on the disk of what has come: what a power failure costs at most."""
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True)
class Wanted:
    """A file that is to be fetched."""

    name: str
    size: int
    digest: str
    """In hexadecimal: SHA-256 (64 digits), or SHA-1 as git names a file (40)."""

    def hash(self) -> "hashlib._Hash":
        """The hash that `digest` is of, before the first byte."""
        if len(self.digest) == 64:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)


def count_arrived(folder: Path, wanted: Wanted) -> int:
    """Count the bytes of a file that have come into a folder, whole or not."""
    for path in (folder / wanted.digest, folder / f"{wanted.digest}.part"):
        with suppress(OSError):  # it is not there, or whoever pulls it has just moved it
            return min(wanted.size, path.stat().st_size)
    return 0


class Partial:
    """The first bytes of a wanted file, in `DIGEST.part`.

    `DIGEST.journal` has a line for each time that the bytes so far were forced onto the disk: how many, and their
    digest. So nothing that is there is fetched again, and nothing is believed that the disk did not keep.
    """

    def __init__(self, wanted: Wanted, folder: Path):
        self.wanted = wanted
        self.path = folder / f"{wanted.digest}.part"
        self.journal = folder / f"{wanted.digest}.journal"
        self.whole = folder / wanted.digest
        self.length = 0
        """Bytes that have come."""
        self.hash, self.hashed, self.saved = wanted.hash(), 0, 0
        self.lock = threading.Lock()
        self.chunks: queue.Queue[bytes | None] = queue.Queue(BACKLOG)
        self.file = os.fdopen(os.open(self.path, FLAGS, 0o666), "r+b", 0)
        self.closing = threading.Event()
        self.failure: OSError | None = None
        self.hasher = threading.Thread(target=self.hash_chunks, name="hashing", daemon=True)
        self.saver = threading.Thread(target=self.save_often, name="saving", daemon=True)

    def begin(self) -> None:
        """Check what an earlier process left, and keep as much of it as the journal vouches for."""
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
        if os.fstat(self.file.fileno()).st_size == self.wanted.size:  # all may have come, whatever was noted
            found.append((self.wanted.size, self.wanted.digest))
        return sorted(found)

    def cut(self, length: int, hash: "hashlib._Hash") -> None:
        """Keep only the first `length` bytes, whose digest so far is `hash`."""
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
        """Hash what is written, beside the thread that receives and writes."""
        while (chunk := self.chunks.get()) is not None:
            with self.lock:
                self.hash.update(chunk)
                self.hashed += len(chunk)
            self.chunks.task_done()

    def settle(self) -> None:
        """Wait until all that was written is hashed."""
        self.chunks.join()

    def save(self) -> None:
        """Force what has come onto the disk, and note it in the journal."""
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
        """Save while chunks come, beside the threads that receive and hash."""
        try:
            while not self.closing.wait(SAVE):
                self.save()
        except OSError as error:
            self.failure = error

    def finish(self) -> bool:
        """Give the file its name among the whole ones, if its digest is right."""
        self.settle()
        if self.hash.hexdigest() != self.wanted.digest:
            return False
        self.saved = self.hashed  # no need for the journal
        os.fsync(self.file.fileno())
        self.close()
        self.path.replace(self.whole)
        self.journal.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """Save what has come, and let go of the file."""
        if self.closing.is_set():
            return
        self.closing.set()
        if self.hasher.ident:  # it has begun
            self.chunks.put(None)
            self.hasher.join()
        if self.saver.ident:
            self.saver.join()
        with self.file:
            self.save()


def disk_error(folder: Path, error: OSError) -> StoreError:
    """The error for bytes that the disk does not take."""
    if error.errno in FULL:
        return StoreError(
            f"the disk with {folder} is full; free some space or set CHATAPP_HOME to a folder on a larger disk, "
            "and pull again: what has come is kept"
        )
    return StoreError(
        f"cannot write to {error.filename or folder} ({error.strerror or error}); set CHATAPP_HOME to another folder"
    )
