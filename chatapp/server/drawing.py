"""Runs a generator in a thread, for an event loop that awaits its items."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import closing, suppress
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

Item = TypeVar("Item")


@runtime_checkable
class Telling(Protocol):
    """A generator that can push its items to a function, from whatever thread makes them."""

    def tell(self, hear: Callable[[Any], bool]) -> None:  # Any: its items
        """Pass each item to `hear`, until none is left or `hear` returns False."""


class Wakeups:
    """Runs functions from threads in this event loop, waking it once for all that are pending."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._acts: deque[Callable[[], object]] = deque()
        self._woken = False

    def call(self, act: Callable[[], object]) -> None:
        """Run a function in the loop, unless the loop has ended."""
        self._acts.append(act)
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._do_all)

    def _do_all(self) -> None:
        self._woken = False
        while self._acts:
            self._acts.popleft()()


class Drawing(Generic[Item]):
    """A generator running in its own thread; closing it ends the generator at its next item."""

    def __init__(self, begin: Callable[[], Generator[Item, None, None]], wakeups: Wakeups | None = None):
        """`begin` makes the generator, in the thread; its exceptions are raised where items are awaited.

        Drawings with the same `wakeups` wake the loop together.
        """
        self._begin, self._wakeups = begin, wakeups or Wakeups()
        self._items: deque[Item | BaseException | None] = deque()
        self._arrived = asyncio.Event()
        self._told = False
        """Whether the loop was already notified of new items."""
        self._wanted = True
        self.ended = asyncio.Event()
        """Set when the thread no longer uses the engine."""
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
                if isinstance(items, Telling):
                    items.tell(self._hear)
                while self._wanted and (item := next(items, None)) is not None:
                    self._bring(item)
        except BaseException as error:  # raised again where items are awaited
            self._bring(error)
        self._bring(None)
        self._wakeups.call(self.ended.set)

    def _hear(self, item: Item) -> bool:
        self._bring(item)
        return self._wanted

    def _bring(self, item: Item | BaseException | None) -> None:
        self._items.append(item)
        if not self._told:
            self._told = True
            self._wakeups.call(self._wake)

    def _wake(self) -> None:
        self._told = False
        self._arrived.set()
