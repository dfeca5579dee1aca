"""Threads beside the screen: one draws a generator to its end, and the screen takes what came in batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from threading import Event, Thread
from typing import Generic, TypeVar

from chatapp.text.errors import one_line
from chatapp.text.printable import printable

SHARE = 0.03
"""Of the time, what the screen may take to show what a thread brings: the rest is the model's."""
SOONEST, LATEST = 0.05, 0.4
"""Seconds between two looks at what has arrived."""

Item = TypeVar("Item")


class Drain(Thread, Generic[Item]):
    """Draws a generator, once the thread before has ended; what arrives waits until the screen takes it."""

    error = ""
    """Why it broke off, in one line for the user."""
    failure: Exception | None = None
    """The same, as it was raised."""

    def __init__(
        self,
        items: Generator[Item, None, None],
        on_end: Callable[[Drain[Item]], object],
        *,
        name: str,
        after: Thread | None = None,
    ) -> None:
        """`on_end` is called in the thread."""
        super().__init__(name=name, daemon=True)
        self.items, self.on_end, self.after = items, on_end, after
        self.arrived: deque[Item] = deque()
        self.stopping, self.finished = Event(), Event()

    def run(self) -> None:
        try:
            if self.after:
                self.after.join()
                self.after = None
            try:
                while not self.stopping.is_set():
                    self.arrived.append(next(self.items))
            except StopIteration:
                pass
            finally:
                self.items.close()  # ends the turn: the engine is free at once
        except Exception as error:  # whatever the runtime raises belongs on the screen
            self.error, self.failure = describe(error), error
        finally:
            self.finished.set()
            with suppress(RuntimeError):  # the screen's loop has ended: nobody looks any more
                self.on_end(self)

    def stop(self) -> None:
        """Ask for the end; the thread closes the generator after the token it is computing."""
        self.stopping.set()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or was asked to."""
        return self.finished.is_set() or self.stopping.is_set()

    def take(self) -> list[Item]:
        """What arrived since the last call."""
        return [self.arrived.popleft() for _ in range(len(self.arrived))]


class Pace:
    """How soon the screen looks again at what a thread brings; used in the screen's own thread."""

    def __init__(self) -> None:
        self.spent = time.thread_time()
        self.cost = 0.0
        """Processor time of the screen's thread from one update to the next."""

    def pause(self) -> float:
        """The seconds until the next look, after something was shown."""
        now = time.thread_time()
        self.cost, self.spent = now - self.spent, now
        return min(LATEST, max(SOONEST, self.cost / SHARE))


def aside() -> list[Thread]:
    """The threads in which models compute something other than a reply; their screens may be gone already."""
    return [thread for thread in threading.enumerate() if thread.name in ("comparison", "preview")]


def wait_for(threads: Iterable[Thread], seconds: float) -> bool:
    """Wait for threads to end, all in all so long; whether they did."""
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def describe(error: Exception) -> str:
    """What happened, in one line for the user."""
    return printable(one_line(error) or f"{type(error).__name__}: {error}")
