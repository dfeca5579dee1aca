"""Work in a thread of its own, for an event loop that waits for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


def in_thread(work: Callable[[], Result]) -> asyncio.Future[Result]:
    """Do something in a thread that keeps no process from ending."""
    done = Future[Result]()
    done.set_running_or_notify_cancel()  # whoever cancels leaves the work, and does not end it

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # whoever waits is told
            done.set_exception(error)

    Thread(target=run, name="work", daemon=True).start()
    return asyncio.wrap_future(done)
