"""The thread that draws a generator, for an event loop that waits for what it gives."""

from __future__ import annotations

import asyncio
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
        self._items: asyncio.Queue[Item | BaseException | None] = asyncio.Queue()
        self._wanted = True
        self.ended = asyncio.Event()
        """Set when the thread needs the engine no more."""
        Thread(target=self._draw, name="answer", daemon=True).start()

    def close(self) -> None:
        """Let the generator be closed."""
        self._wanted = False

    async def __aiter__(self) -> AsyncIterator[Item]:
        while (item := await self._items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _draw(self) -> None:
        try:
            with closing(self._begin()) as items:
                while self._wanted and (item := next(items, None)) is not None:
                    self._tell(self._items.put_nowait, item)
        except BaseException as error:  # whoever waits is told
            self._tell(self._items.put_nowait, error)
        self._tell(self._items.put_nowait, None)
        self._tell(self.ended.set)

    def _tell(self, act: Callable[..., object], *values: object) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(act, *values)


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
