"""Work in a thread of its own, for an event loop that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


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
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    Thread(target=run, name="work", daemon=True).start()
    return done
