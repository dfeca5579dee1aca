"""A reply while it is written: a thread draws it from the model, the screen takes it in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING

from chatapp.tui.threads import describe

if TYPE_CHECKING:
    from chatapp.conversation import WhenFull
    from chatapp.generation import Delta


FULL = "■ context full"
"""Of an answer that no more fits behind."""


class Reply:
    """One answer, drawn from the model by a thread of its own."""

    error: str | None = None

    def __init__(
        self, deltas: Generator[Delta, None, None], on_end: Callable[[Reply], object], after: Reply | None = None
    ) -> None:
        self.drawn = deltas
        self.on_end = on_end
        self.after = after
        self.deltas: deque[Delta] = deque()
        self.stopping = Event()
        self.finished = Event()
        self.thread = Thread(target=self.write, name="reply", daemon=True)
        self.thread.start()

    def write(self) -> None:
        """The thread: one conversation's replies are written one after the other."""
        try:
            if self.after:
                self.after.finished.wait()
                self.after = None
            try:
                if not self.stopping.is_set():
                    for delta in self.drawn:
                        self.deltas.append(delta)
                        if self.stopping.is_set():
                            break
            finally:
                self.drawn.close()  # ends the turn: the engine is free at once
        except Exception as error:  # whatever the runtime raises belongs on the screen
            self.error = describe(error)
        finally:
            self.finished.set()
            self.on_end(self)

    def stop(self) -> None:
        """Ask for the end; the thread closes the stream after the token it is computing."""
        self.stopping.set()

    def take(self) -> list[Delta]:
        """The deltas that arrived since the last call."""
        return [self.deltas.popleft() for _ in range(len(self.deltas))]


@dataclass(frozen=True)
class Ending:
    """How a reply ended, as the screen tells it."""

    state: str
    tone: str
    mark: str = ""
    """Behind the text, where it was cut off."""
    message: str = ""


NEXT: dict[WhenFull, str] = {
    "stop": "start anew, shorten the text, or let the oldest slide out (^S).",
    "slide": "from here on the oldest part is left out.",
    "summarise": "from here on the oldest part is summed up.",
}
"""What comes of a full context, by what is chosen to be done then."""


def ending(reason: str | None, *, error: str | None, full: bool, when_full: WhenFull) -> Ending:
    """Put in words how a reply ended; no reason means that it was stopped."""
    if error:
        return Ending("✗ failed", "error", "✗ cut off by an error", error)
    if reason in (None, "cancelled"):
        return Ending("■ stopped", "warning", "■ stopped")
    if reason == "length" and full:
        return Ending(FULL, "warning", FULL, f"The model's context is full: {NEXT[when_full]}")
    if reason == "length":
        return Ending("■ max_tokens reached", "success")
    return Ending("● done", "success")
