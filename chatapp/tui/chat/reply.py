"""A reply in progress: drawn on a thread, shown in batches."""

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
"""Seconds after a key press during which the user counts as typing."""
LONG = 10.0
"""Seconds after which the end of a reply is worth a bell."""
BUSY = "The model is writing: esc stops it."
FULL = "■ context full"
"""The mark of an answer that filled the context."""


class Place(Protocol):
    """A widget that shows a reply."""

    def set_timer(self, delay: float, callback: Callable[[], Awaitable[None]]) -> Timer: ...
    async def grow(self, reply: ReplyStream, deltas: list[Delta]) -> None: ...
    async def end(self, reply: ReplyStream) -> None: ...


class ReplyStream:
    """The replies of one turn, drawn by a thread; the replies of a conversation run one after another.

    The screen updates often enough to look live, and seldom enough to leave time to the model.
    """

    def __init__(
        self, turn: Turn, on_end: Callable[[], object], *, after: ReplyStream | None = None, prompt_tokens: int = 0
    ) -> None:
        """Start drawing once the reply `after` has ended; `on_end` is called on the thread."""
        self.turn, self.figures = turn, Figures(prompt_tokens=prompt_tokens)
        self.tokens: list[list[Token]] = [[] for _ in turn.replies]
        """The tokens of each answer."""
        self.finish_reason: str | None = None
        self.place: Place | None = None
        """The widget that shows it; None until it is mounted, since a fast model may be ready earlier."""
        self.pace = Pace()
        self.pulse: Timer | None = None
        self.began = time.monotonic()
        self.shown = self.typed = 0.0
        """When it was last shown, and when the user last typed."""
        self.stale, self.told = False, 0.0
        """Whether there are newer figures than those shown, and when those were shown."""
        self.ended = False
        """Whether all of it has been shown."""
        self.thread: Drain[Delta] = Drain(
            turn.deltas, lambda _: on_end(), name="reply", after=after.thread if after else None
        )
        self.thread.start()

    def stop(self) -> None:
        """Ask it to stop after the token being computed."""
        self.thread.stop()

    def show_in(self, place: Place) -> None:
        """Show it in a widget from now on."""
        self.place, self.pace = place, Pace()
        self.pulse = place.set_timer(0.05, self.flush)

    async def flush(self) -> None:
        """Show what arrived since the last time, and schedule the next update."""
        if self.pulse:
            self.pulse.stop()
        if self.ended or not self.place:
            return
        over, now = self.thread.is_over, time.monotonic()
        if not over and now < self.typed + TYPING and now < self.shown + self.pace.cost / SHARE:
            pause = 0.1  # a delayed key is noticeable, a delayed update is not
        else:
            if self.turn.options.num_beams > 1:  # the final beams are known only when the thread has ended
                over = self.thread.finished.is_set()
            await self.place.grow(self, self.take())
            if self.ended:  # it was ended while this waited
                return
            if over:
                self.ended = True
                return await self.place.end(self)
            self.shown, pause = now, self.pace.pause()
        self.pulse = self.place.set_timer(pause, self.flush)

    def take(self) -> list[Delta]:
        """The deltas that arrived since the last call, added to the figures."""
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
        """Context tokens used by the prompt and the reply; of several answers, the longest counts."""
        several = len(self.turn.replies) > 1
        return self.figures.prompt_tokens + (max(map(len, self.tokens)) if several else self.figures.tokens)

    @property
    def is_long(self) -> bool:
        """Whether it took long enough for a bell at its end."""
        return time.monotonic() - self.began > LONG

    def describe_end(self, when_full: WhenFull, kind: Kind, total: int) -> Ending:
        """How it ended; `total` is the context length in tokens, 0 if unknown."""
        from chatapp.generation import PromptTooLong  # late, to speed up the first frame

        if kind == "completion" and when_full == "summarise":
            when_full = "slide"  # texts are not summarised
        full = self.figures.usage is not None and 0 < total <= self.context
        error = self.thread.error
        if self.turn.slides and isinstance(self.thread.failure, PromptTooLong):
            error += SLIDE
        goes_on = kind == "completion" and self.turn.after is None
        return ending(self.finish_reason, error=error, full=full, when_full=when_full, goes_on=goes_on)

    def keep(self, index: int) -> None:
        """One of several answers was chosen."""
        self.tokens = [self.tokens[index]]


async def settle(reply: ReplyStream | None, show_end: Callable[[], Awaitable[object]]) -> None:
    """Wait until a stopped reply has its last token, and show it."""
    if reply:
        await asyncio.to_thread(reply.thread.join)
        await show_end()


@dataclass(frozen=True)
class Ending:
    """How a reply ended, in words for the screen."""

    state: str
    tone: str
    mark: str = ""
    """Shown after the text if it was cut off."""
    message: str = ""


SLIDE = ", or choose slide (^S, when full)"
"""Advice added to the error for a prompt that is too long."""
NEXT: dict[WhenFull, str] = {
    "stop": "start a new conversation, shorten the text, or choose slide (^S, when full).",
    "slide": "from here on the oldest part is left out.",
    "summarise": "from here on the oldest part is summarised.",
}
"""What happens when the context is full, by setting."""


def ending(reason: str | None, *, error: str | None, full: bool, when_full: WhenFull, goes_on: bool = False) -> Ending:
    """How a reply ended in words; no reason means it was stopped. `goes_on`: a key continues it."""
    if error:
        return Ending("✗ failed", "error", "✗ cut off by an error", error)
    if reason in (None, "cancelled"):
        return Ending("■ stopped", "warning", "■ stopped")
    if reason == "length" and full:
        return Ending(FULL, "warning", FULL, f"The model's context is full: {NEXT[when_full]}")
    if reason == "length":
        return Ending(f"■ max_tokens reached{', ^J continues' if goes_on else ''}", "success")
    return Ending("● done", "success")
