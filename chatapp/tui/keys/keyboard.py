"""Keys in their order: each waits until what the ones before it do is done, and then goes where its user sees it go."""

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
"""Seconds that a key waits at most: something that never ends must not lock the keyboard."""
STEP = 0.1
"""Seconds after which it is looked again who is at work: a widget may have been removed meanwhile."""


class Keyboard:
    """The keys that were typed and have not been passed on yet.

    Textual hands each key at once to what has the focus, though the key before may be about to move that.
    """

    def __init__(self, app: App[None]) -> None:
        self.app = app
        self.waiting: deque[Input] = deque()
        self.passing: list[Input] = []
        """Keys whose turn has come, on their way back to the app."""
        self.way: Sequence[MessagePump] = ()
        """The widgets that have to do with the last key that was passed on."""
        self.patient = False
        """Whether keys wait."""

    def passes(self, event: Input) -> bool:
        """Whether a key goes on now; otherwise the app sees it again when its turn has come."""
        if event in self.passing:
            self.passing.remove(event)
        elif self.patient or self.app.message_queue_size or self.busy(self.app):
            self.wait(event)
            return False
        self.way = self.concerned()
        return True

    def wait(self, event: Input, *, first: bool = False) -> None:
        """Keep a key until its turn has come."""
        if first:
            self.waiting.appendleft(event)
        else:
            self.waiting.append(event)
        if not self.patient:
            self.patient = True
            self.app.run_worker(self.pass_on(), group="keyboard")

    async def pass_on(self) -> None:
        """Let one key after the other go on; letters that go into a text need not wait for each other."""
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
        """Give a key back to the app, which passes it on."""
        self.passing.append(event)
        self.app.post_message(event)

    def is_plain(self, event: Input) -> bool:
        """Whether a key is a letter for the text that has the focus."""
        focused = self.app.focused
        return isinstance(event, events.Key) and bool(focused and focused.check_consume_key(event.key, event.character))

    async def settle(self) -> None:
        """Wait until nobody is at work with a key any more."""
        while pump := self.busy():
            done = asyncio.Event()
            pump.call_later(done.set)
            with suppress(TimeoutError):
                async with asyncio.timeout(STEP):
                    await done.wait()

    def busy(self, but: MessagePump | None = None) -> MessagePump | None:
        """A widget that is at work: a switch of screens or conversations is done by those that a key passes through."""
        return next((one for one in (*self.concerned(), *self.way) if one is not but and not rests(one)), None)

    def concerned(self) -> Sequence[MessagePump]:
        """The widget that has the focus, and all around it."""
        return (self.app.focused or self.app.screen).ancestors_with_self


def rests(pump: MessagePump) -> bool:
    """Whether a widget has nothing to do: all that was posted to it is done, and it waits for more, or it has left."""
    ready: asyncio.Event = pump._message_queue.ready_event
    # An empty queue is not enough: the last message may be at work, or the widget not mounted yet.
    return pump._closed or (not ready.is_set() and bool(ready._waiters))  # asyncio's own
