"""Keeps keys in order: each waits until the previous ones have taken effect."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from textual import events
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from textual.app import App

Input: TypeAlias = events.Key | events.Paste

PATIENCE = 10.0
"""Maximum seconds a key waits: something that hangs must not lock the keyboard."""
STEP = 0.1
"""Seconds between checks who is busy, since a widget may have been removed."""


class Keyboard:
    """The keys that were typed but not dispatched yet.

    Textual dispatches each key to the focused widget at once, even if the previous key is about to move the focus.
    """

    def __init__(self, app: App[None]) -> None:
        self.app = app
        self.waiting: deque[Input] = deque()
        self.passing: list[Input] = []
        """Keys whose turn has come, on their way back to the app."""
        self.way: Sequence[MessagePump] = ()
        """The widgets that handled the last dispatched key."""
        self.patient = False
        """Whether keys are waiting."""

    def passes(self, event: Input) -> bool:
        """Whether a key is dispatched now; otherwise it is queued and posted to the app again later."""
        if event in self.passing:
            self.passing.remove(event)
        elif self.patient or self.app.message_queue_size or self.busy(self.app):
            self.wait(event)
            return False
        self.way = self.concerned()
        return True

    def wait(self, event: Input, *, first: bool = False) -> None:
        """Queue a key."""
        if first:
            self.waiting.appendleft(event)
        else:
            self.waiting.append(event)
        if not self.patient:
            self.patient = True
            self.app.run_worker(self.pass_on(), group="keyboard")

    async def pass_on(self) -> None:
        """Dispatch the queued keys one by one; plain letters need not wait for each other."""
        try:
            while self.waiting:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await self.settle()
                plain = self.is_plain(self.waiting[0])
                self.give(self.waiting.popleft())
                while plain and self.waiting and self.is_plain(self.waiting[0]):
                    self.give(self.waiting.popleft())
        finally:
            self.patient = False

    def give(self, event: Input) -> None:
        """Post a key to the app again."""
        self.passing.append(event)
        self.app.post_message(event)

    def is_plain(self, event: Input) -> bool:
        """Whether a key is a character for the focused text."""
        focused = self.app.focused
        return isinstance(event, events.Key) and bool(focused and focused.check_consume_key(event.key, event.character))

    async def settle(self) -> None:
        """Wait until no widget is busy with a key."""
        while pump := self.busy():
            done = asyncio.Event()
            pump.call_later(done.set)
            with suppress(TimeoutError):
                async with asyncio.timeout(STEP):
                    await done.wait()

    def busy(self, but: MessagePump | None = None) -> MessagePump | None:
        """A widget that is busy; a key changes screens and conversations through the widgets it passes."""
        return next((one for one in (*self.concerned(), *self.way) if one is not but and not is_idle(one)), None)

    def concerned(self) -> Sequence[MessagePump]:
        """The focused widget and its ancestors."""
        return (self.app.focused or self.app.screen).ancestors_with_self


def is_idle(pump: MessagePump) -> bool:
    """Whether a widget is idle: its messages are handled and it waits for more, or it is closed."""
    ready: asyncio.Event = pump._message_queue.ready_event
    # An empty queue is not enough: the last message may be in progress, or the widget not mounted yet.
    return pump._closed or (not ready.is_set() and bool(ready._waiters))  # _waiters is private to asyncio.Event
