"""A reply while it is written: a thread draws it from the model, the screen shows it in batches, and tells its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from chatapp.tui.chat.status import Figures
from chatapp.tui.threads import SHARE, Drain, Pace

if TYPE_CHECKING:
    from textual.timer import Timer

    from chatapp.conversation import Turn, WhenFull
    from chatapp.generation import Delta, Token
    from chatapp.history import Kind

TYPING = 0.5
"""Seconds after a key in which its user is taken to be typing."""
LONG = 10.0
"""Seconds after which nobody may be waiting any more."""
BUSY = "The model is writing: esc stops it."
FULL = "■ context full"
"""Of an answer that no more fits behind."""


class Place(Protocol):
    """A widget that shows a reply."""

    def set_timer(self, delay: float, callback: Callable[[], Awaitable[None]]) -> Timer: ...
    async def grow(self, reply: ReplyStream, deltas: list[Delta]) -> None: ...
    async def end(self, reply: ReplyStream) -> None: ...


class ReplyStream:
    """The replies of one turn, drawn by a thread of their own: one conversation's are written one after the other.

    They are shown often enough to look live, and seldom enough to leave the time to the model.
    """

    def __init__(
        self, turn: Turn, on_end: Callable[[], object], *, after: ReplyStream | None = None, prompt_tokens: int = 0
    ) -> None:
        """Begin to draw when the reply before has ended; the thread calls `on_end`."""
        self.turn, self.figures = turn, Figures(prompt_tokens=prompt_tokens)
        self.tokens: list[list[Token]] = [[] for _ in turn.replies]
        """The tokens of each of the answers."""
        self.finish_reason: str | None = None
        self.place: Place | None = None
        """Where it is shown; None until that is arranged: a quick model may be ready sooner."""
        self.pace = Pace()
        self.pulse: Timer | None = None
        self.began = time.monotonic()
        self.shown = self.typed = 0.0
        """When it was last shown, and when its user last typed."""
        self.stale, self.told = False, 0.0
        """Whether there are newer figures than those that are shown, and when they were shown."""
        self.ended = False
        """Whether all that is wanted of it has been shown."""
        self.thread: Drain[Delta] = Drain(
            turn.deltas, lambda _: on_end(), name="reply", after=after.thread if after else None
        )
        self.thread.start()

    def stop(self) -> None:
        """Ask for the end; the model stops after the token it is computing."""
        self.thread.stop()

    def show_in(self, place: Place) -> None:
        """Show in a place what has come, and what comes from now on."""
        self.place, self.pace = place, Pace()
        self.pulse = place.set_timer(0.05, self.flush)

    async def flush(self) -> None:
        """Show what arrived since the last time, and come back soon enough to look live."""
        if self.pulse:
            self.pulse.stop()
        if self.ended or not self.place:
            return
        over, now = self.thread.is_over, time.monotonic()
        if not over and now < self.typed + TYPING and now < self.shown + self.pace.cost / SHARE:
            pause = 0.1  # a key that waits for an update is felt, an update is not
        else:
            if self.turn.options.num_beams > 1:  # what is taken of a search is known when the thread has ended
                over = self.thread.finished.is_set()
            await self.place.grow(self, self.take())
            if self.ended:  # by somebody else, meanwhile
                return
            if over:
                self.ended = True
                return await self.place.end(self)
            self.shown, pause = now, self.pace.pause()
        self.pulse = self.place.set_timer(pause, self.flush)

    def take(self) -> list[Delta]:
        """The deltas that arrived since the last call; the figures have them from now on."""
        deltas = self.thread.take()
        if self.thread.finished.is_set():
            deltas += self.turn.taken
            self.turn.taken = ()
        self.figures.add(deltas)
        self.stale = self.stale or bool(deltas)
        for delta in deltas:
            self.tokens[delta.index] += delta.tokens
            self.finish_reason = delta.finish_reason
        return deltas

    @property
    def context(self) -> int:
        """The tokens of the context that prompt and reply take; with several answers, the longest of them."""
        several = len(self.turn.replies) > 1
        return self.figures.prompt_tokens + (max(map(len, self.tokens)) if several else self.figures.tokens)

    @property
    def is_long(self) -> bool:
        """Whether it took so long that its end rings the bell, where nobody is looking."""
        return time.monotonic() - self.began > LONG

    def describe_end(self, when_full: WhenFull, kind: Kind, total: int) -> Ending:
        """How it has ended, where the context holds so many tokens in total; 0: nobody knows how many."""
        from chatapp.generation import PromptTooLong  # not for the first frame

        if kind == "completion" and when_full == "summarise":
            when_full = "slide"  # of a text there is no summary
        full = self.figures.usage is not None and 0 < total <= self.context
        error = self.thread.error
        if self.turn.slides and isinstance(self.thread.failure, PromptTooLong):
            error += SLIDE
        goes_on = kind == "completion" and self.turn.after is None
        return ending(self.finish_reason, error=error, full=full, when_full=when_full, goes_on=goes_on)

    def keep(self, index: int) -> None:
        """One of several answers is kept."""
        self.tokens = [self.tokens[index]]


async def settle(reply: ReplyStream | None, show_end: Callable[[], Awaitable[object]]) -> None:
    """Wait until a reply that was stopped has all it gets, and show it: the token being computed is still kept."""
    if reply:
        await asyncio.to_thread(reply.thread.join)
        await show_end()


@dataclass(frozen=True)
class Ending:
    """How a reply ended, as the screen tells it."""

    state: str
    tone: str
    mark: str = ""
    """Behind the text, where it was cut off."""
    message: str = ""


SLIDE = ", or let the oldest slide out (^S, when full)"
"""Another way out of a prompt that is too long."""
NEXT: dict[WhenFull, str] = {
    "stop": "start anew, shorten the text, or let the oldest slide out (^S).",
    "slide": "from here on the oldest part is left out.",
    "summarise": "from here on the oldest part is summed up.",
}
"""What comes of a full context, by what is chosen to be done then."""


def ending(reason: str | None, *, error: str | None, full: bool, when_full: WhenFull, goes_on: bool = False) -> Ending:
    """Put in words how a reply ended; no reason means that it was stopped. `goes_on` says that a key lets it."""
    if error:
        return Ending("✗ failed", "error", "✗ cut off by an error", error)
    if reason in (None, "cancelled"):
        return Ending("■ stopped", "warning", "■ stopped")
    if reason == "length" and full:
        return Ending(FULL, "warning", FULL, f"The model's context is full: {NEXT[when_full]}")
    if reason == "length":
        return Ending(f"■ max_tokens reached{', ^J goes on' if goes_on else ''}", "success")
    return Ending("● done", "success")
