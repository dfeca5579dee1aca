"""Download files to a folder: several at once, resuming earlier attempts, each byte verified."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from model_store.errors import StoreError
from model_store.hub.partial import Partial, Wanted, disk_error
from model_store.hub.web import Answer, Patience, TryAgain, given_up

AT_ONCE = 4
"""Files downloaded at once."""
WINDOW = 5.0
"""Seconds over which the rate is averaged."""
LOOK = 0.1
"""Seconds between two reports of progress."""
FAREWELL = 1.0
"""Seconds that a cancelled transfer waits for its threads: name lookups cannot be interrupted."""

Open = Callable[[Wanted, int], Answer]
"""Requests a file from a byte on; the status is 200 or 206. Raises TryAgain or StoreError."""


@dataclass(frozen=True)
class FileProgress:
    """The progress of a file; it never goes back."""

    name: str
    done: int
    size: int


@dataclass(frozen=True)
class Transfer:
    """The progress of all files at one moment."""

    files: tuple[FileProgress, ...]
    done: int
    size: int
    rate: float
    """Recent bytes per second over the network."""
    seconds_left: float | None
    """Remaining seconds at that rate; None if nothing comes."""
    note: str = ""
    """Why it waits, if it does."""


OnTransfer = Callable[[Transfer], None]
"""Called several times per second, even if nothing comes; an exception from it ends the transfer."""


class Tracker:
    """Turns byte counts, which may fall, into progress that does not."""

    def __init__(self, files: Sequence[Wanted]):
        self.files = files
        self.shown = dict.fromkeys((file.name for file in files), 0)
        self.marks: deque[tuple[float, int]] = deque()

    def look(self, counts: dict[str, int], fetched: int, note: str = "") -> Transfer:
        """The progress for these byte counts; `fetched` bytes came over the network."""
        for name, count in counts.items():
            self.shown[name] = max(self.shown[name], count)
        now = time.monotonic()
        self.marks.append((now, fetched))
        while now - self.marks[0][0] > WINDOW and len(self.marks) > 2:
            self.marks.popleft()
        seconds, bytes = now - self.marks[0][0], fetched - self.marks[0][1]
        rate = bytes / seconds if seconds > 0 else 0.0
        size, done = sum(file.size for file in self.files), sum(self.shown.values())
        files = tuple(FileProgress(file.name, self.shown[file.name], file.size) for file in self.files)
        return Transfer(files, done, size, rate, (size - done) / rate if rate > 0 else None, note)


def fetch(
    files: Sequence[Wanted], folder: Path, open: Open, *, on_transfer: OnTransfer, patience: Patience | None = None
) -> None:
    """Download `files` to `folder`, each named by its digest.

    After any exception the next call resumes; exceptions from `on_transfer`, and Ctrl-C, end it at once.
    """
    fetching = Fetching(files, folder, open, patience or Patience())
    tracker = Tracker(files)
    try:
        for thread in fetching.threads:
            thread.start()
        while any(thread.is_alive() for thread in fetching.threads) or not fetching.failures.empty():
            note = next(iter(list(fetching.waiting.values())), "")
            on_transfer(tracker.look(fetching.counts(), fetching.fetched, note))
            with suppress(queue.Empty):
                raise fetching.failures.get(timeout=LOOK)
        on_transfer(tracker.look(fetching.counts(), fetching.fetched))
    finally:
        fetching.stop()


class Fetching:
    """The downloading threads, and their common state."""

    def __init__(self, files: Sequence[Wanted], folder: Path, open: Open, patience: Patience):
        self.folder, self.open, self.patience = folder, open, patience
        self.parts: dict[str, Partial] = {}
        """Files in progress."""
        self.left: queue.SimpleQueue[Wanted] = queue.SimpleQueue()
        self.done: dict[str, int] = {}
        """Sizes of complete files."""
        self.answers: dict[str, Answer] = {}
        self.waiting: dict[str, str] = {}
        """Reasons to wait, by file."""
        self.fetched = 0
        self.counting = threading.Lock()
        self.stopped = threading.Event()
        self.failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        for file in files:
            if (folder / file.digest).exists():
                self.done[file.name] = file.size
            else:
                self.left.put(file)
        workers = min(AT_ONCE, self.left.qsize())
        self.threads = [threading.Thread(target=self.work, name="fetching", daemon=True) for _ in range(workers)]

    def counts(self) -> dict[str, int]:
        """Bytes received, by file."""
        return {name: part.length for name, part in list(self.parts.items())} | self.done

    def stop(self) -> None:
        """Abort all requests, keeping what has come."""
        self.stopped.set()
        for answer in list(self.answers.values()):
            answer.close()
        end = time.monotonic() + FAREWELL
        for thread in self.threads:
            thread.join(max(0.0, end - time.monotonic()))

    def work(self) -> None:
        """Download one file after another."""
        try:
            while not self.stopped.is_set():
                self.fetch(self.left.get_nowait())
        except queue.Empty:
            return
        except OSError as error:
            self.failures.put(disk_error(self.folder, error))
        except BaseException as error:  # raised again in the waiting thread
            self.failures.put(error)

    def fetch(self, file: Wanted) -> None:
        """Download a file, verify it, and give it its name."""
        part = Partial(file, self.folder)
        self.parts[file.name] = part
        try:
            part.begin()
            for _ in range(2):
                self.receive_all(part)
                if self.stopped.is_set():
                    return
                if part.finish():
                    self.done[file.name] = file.size
                    return
                part.restart()
            raise StoreError(
                f"{file.name} did not match the digest of the Hub, twice (its digest should be "
                f"{file.digest}); nothing of it was kept, try again later"
            )
        finally:
            del self.parts[file.name]
            part.close()

    def receive_all(self, part: Partial) -> None:
        """Repeat requests until the file is complete."""
        failures = 0
        while part.length < part.wanted.size and not self.stopped.is_set():
            before = part.length
            try:
                self.receive(part)
            except TryAgain as error:
                failures = 1 if part.length > before else failures + 1
                pause = self.patience.wait(failures, error.after)
                if self.stopped.is_set():
                    return
                if failures == self.patience.tries or pause > self.patience.longest_order:
                    lost = given_up(str(error), pause, failures, self.patience)
                    raise StoreError(f"{part.wanted.name}: {lost}; the downloaded part is kept") from error
                self.waiting[part.wanted.name] = f"{error}; retrying in {pause:.1f} s"
                self.stopped.wait(pause)
                del self.waiting[part.wanted.name]

    def receive(self, part: Partial) -> None:
        """Request the rest of the file, and append what comes."""
        name, size = part.wanted.name, part.wanted.size
        answer = self.answers[name] = self.open(part.wanted, part.length)
        try:
            skip = part.length - begins(answer, part.wanted, part.length)
            while part.length < size and not self.stopped.is_set():
                chunk = answer.read()
                if not chunk:
                    raise TryAgain(f"the connection closed at byte {part.length:,} of {size:,}")
                with self.counting:
                    self.fetched += len(chunk)
                part.write(chunk[skip : skip + size - part.length])
                skip = max(0, skip - len(chunk))
        finally:
            del self.answers[name]
            answer.close()


def begins(answer: Answer, file: Wanted, asked: int) -> int:
    """The offset at which a response begins: 0 if the server does not support ranges."""
    if answer.status == 200:
        size = answer.headers["Content-Length"]
        if size is not None and size != str(file.size):
            raise TryAgain(f"the server has {size} bytes of {file.name}, which should have {file.size:,}")
        return 0
    if answer.headers["Content-Range"] != f"bytes {asked}-{file.size - 1}/{file.size}":
        raise TryAgain(f"the server answers with {answer.headers['Content-Range']!r} from byte {asked:,}")
    return asked
