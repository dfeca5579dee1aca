"""How far a transfer is, as a screen or a program wants to hear it."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model_store.hub.partial import Wanted

WINDOW = 5.0
"""Seconds over which the rate is averaged."""


@dataclass(frozen=True)
class FileProgress:
    """How many bytes of a file are there; never fewer than a moment ago."""

    name: str
    done: int
    size: int


@dataclass(frozen=True)
class Transfer:
    """How far everything is, at one moment."""

    files: tuple[FileProgress, ...]
    done: int
    size: int
    rate: float
    """Bytes per second that come over the network, lately."""
    seconds_left: float | None
    """At that rate; None where nothing comes."""
    note: str = ""
    """What is being waited for, if anything."""


OnTransfer = Callable[[Transfer], None]
"""Called several times a second, also when nothing comes; what it raises ends the transfer at once."""


class Tracker:
    """Turns byte counts into progress; the counts may fall, what is shown does not."""

    def __init__(self, files: Sequence[Wanted]):
        self.files = files
        self.shown = dict.fromkeys((file.name for file in files), 0)
        self.marks: deque[tuple[float, int]] = deque()

    def look(self, counts: dict[str, int], fetched: int, note: str = "") -> Transfer:
        """The progress with so many bytes of each file there, `fetched` of all of them by the network."""
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
