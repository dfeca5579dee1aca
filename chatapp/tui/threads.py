"""Threads beside the screen: each runs a generator to its end, and the screen takes its items in batches."""

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
"""The share of time that the screen may spend on showing items; the rest is for the model."""
SOONEST, LATEST = 0.05, 0.4
"""Minimum and maximum seconds between two looks at what has arrived."""

Item = TypeVar("Item")


class Drain(Thread, Generic[Item]):
    """Runs a generator once the thread `after` has ended; items wait until the screen takes them."""

    error = ""
    """Why it failed, in one line for the user."""
    failure: Exception | None = None
    """The exception."""

    def __init__(
        self,
        items: Generator[Item, None, None],
        on_end: Callable[[Drain[Item]], object],
        *,
        name: str,
        after: Thread | None = None,
    ) -> None:
        """`on_end` is called on the thread."""
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
                self.items.close()  # ends the turn, which frees the engine
        except Exception as error:  # show any error of a runtime on the screen
            self.error, self.failure = describe(error), error
        finally:
            self.finished.set()
            with suppress(RuntimeError):  # the app's event loop has ended
                self.on_end(self)

    def stop(self) -> None:
        """Ask it to stop; the generator is closed after the token being computed."""
        self.stopping.set()

    @property
    def is_over(self) -> bool:
        """Whether it has ended or was asked to stop."""
        return self.finished.is_set() or self.stopping.is_set()

    def take(self) -> list[Item]:
        """The items that arrived since the last call."""
        return [self.arrived.popleft() for _ in range(len(self.arrived))]


class Pace:
    """How often the screen updates, depending on what updates cost; used on the screen's thread."""

    def __init__(self) -> None:
        self.spent = time.thread_time()
        self.cost = 0.0
        """CPU seconds of the screen's thread between the last two updates."""

    def pause(self) -> float:
        """Seconds until the next update, called after one."""
        now = time.thread_time()
        self.cost, self.spent = now - self.spent, now
        return min(LATEST, max(SOONEST, self.cost / SHARE))


def aside() -> list[Thread]:
    """The threads on which models compute something other than a reply."""
    return [thread for thread in threading.enumerate() if thread.name in ("comparison", "preview")]


def wait_for(threads: Iterable[Thread], seconds: float) -> bool:
    """Wait for threads, in total at most this long; returns whether all have ended."""
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def describe(error: Exception) -> str:
    """An error in one line for the user."""
    return printable(one_line(error) or f"{type(error).__name__}: {error}")
