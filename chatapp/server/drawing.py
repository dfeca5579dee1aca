"""The thread that draws a generator, for an event loop that waits for what it gives."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import closing, suppress
from threading import Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Drawing(Generic[Item]):
    """A generator that is drawn in a thread of its own; to close it ends it at its next item."""

    def __init__(self, begin: Callable[[], Generator[Item, None, None]]):
        """`begin` makes the generator, in the thread; what it raises is raised where the items are awaited."""
        self._begin, self._loop = begin, asyncio.get_running_loop()
        self._items: deque[Item | BaseException | None] = deque()
        self._arrived = asyncio.Event()
        self._told = False
        """Whether the loop is going to hear of what has arrived."""
        self._wanted = True
        self.ended = asyncio.Event()
        """Set when the thread needs the engine no more."""
        Thread(target=self._draw, name="answer", daemon=True).start()

    def close(self) -> None:
        """Let the generator be closed."""
        self._wanted = False

    async def __aiter__(self) -> AsyncIterator[Item]:
        while True:
            while not self._items:
                self._arrived.clear()
                await self._arrived.wait()
            item = self._items.popleft()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                return
            yield item

    def _draw(self) -> None:
        try:
            with closing(self._begin()) as items:
                while self._wanted and (item := next(items, None)) is not None:
                    self._bring(item)
        except BaseException as error:  # whoever waits is told
            self._bring(error)
        self._bring(None)
        self._tell(self.ended.set)

    def _bring(self, item: Item | BaseException | None) -> None:
        self._items.append(item)
        if not self._told:
            self._told = True
            self._tell(self._wake)

    def _wake(self) -> None:
        self._told = False
        self._arrived.set()

    def _tell(self, act: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(act)


def in_thread(work: Callable[[], Result]) -> asyncio.Future[Result]:
    """Do something in a thread that keeps no process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(act: Callable[..., object], value: object) -> None:
        if not done.done():
            act(value)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # whoever waits is told
            outcome: tuple[Callable[..., object], object] = done.set_exception, error
        else:
            outcome = done.set_result, result
        with suppress(RuntimeError):  # as above
            loop.call_soon_threadsafe(settle, *outcome)

    Thread(target=run, name="work", daemon=True).start()
    return done
