"""Run work in a thread for an event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


def in_thread(work: Callable[[], Result]) -> asyncio.Future[Result]:
    """Run `work` in a daemon thread."""
    done = Future[Result]()
    done.set_running_or_notify_cancel()  # cancelling does not stop the work

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # passed to whoever waits
            done.set_exception(error)

    Thread(target=run, name="work", daemon=True).start()
    return asyncio.wrap_future(done)
