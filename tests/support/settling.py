"""Screens in tests settle: what is under way is done, laid out and painted before somebody looks or types on."""

import asyncio
import time
from typing import Any

import textual.app
import textual.pilot
from textual._context import active_app
from textual.notifications import Notification
from textual.pilot import Pilot

from support.patience import PATIENCE

messages_handled = Pilot._wait_for_screen


async def idle() -> None:
    """Wait until nothing on the event loop could go on by itself."""
    ready, end = asyncio.get_running_loop()._ready, time.monotonic() + PATIENCE  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    while ready:
        assert time.monotonic() < end, f"it never comes to rest: {list(ready)}"
        await asyncio.sleep(0)


async def settle(*_: float) -> None:
    """Do at once what the timers of an app would do in the next frame, and whatever follows from it."""
    await idle()
    app = active_app.get(None)
    while app and app._screen_stack:
        if app._resize_event:
            app._check_resize()
        elif (timer := app.screen._update_timer)._active.is_set():
            app.screen._on_timer_update()
            if timer._active.is_set():  # its terminal is behind
                break
        else:
            break
        await idle()


async def wait_for_screen(pilot: Pilot[Any], timeout: float = PATIENCE) -> bool:  # Any: apps end with what they like
    handled = await messages_handled(pilot, timeout)
    await settle()
    return handled


def let_toasts_stay() -> None:
    """Let nothing that is told leave by itself: on a busy machine that is before a test has looked."""
    Notification.time_left = property(lambda told: 10 * PATIENCE)  # type: ignore[method-assign, assignment]


def make_pilots_wait() -> None:
    """Wait for what is under way; Textual waits for a processor at rest, as it seems to be whenever others have it."""
    textual.app.wait_for_idle = textual.pilot.wait_for_idle = settle  # type: ignore[attr-defined, assignment]
    Pilot._wait_for_screen = wait_for_screen  # type: ignore[method-assign, assignment]
