"""Somebody at a running app in a test: a keyboard, eyes, and patience."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from textual import events
from textual.pilot import Pilot

from support.patience import PATIENCE
from support.settling import settle


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for what will be, and for what comes with it."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what or condition}"
        await asyncio.sleep(0.01)
    await settle()


class Typist:
    """Types, looks, and waits."""

    def __init__(self, pilot: Pilot[Any]) -> None:  # Any: apps end with what they like
        self.pilot = pilot

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        await until(condition, what)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Send keys as fast as a paste without brackets would."""
        for character in text:
            self.pilot.app.post_message(events.Key("enter" if character == "\n" else character, character))
        await self.pilot.pause()

    @property
    def toasts(self) -> list[str]:
        return [notification.message for notification in self.pilot.app._notifications]

    @property
    def picture(self) -> str:
        """The characters on the screen."""
        return "\n".join(strip.text for strip in self.pilot.app.screen._compositor.render_strips())
