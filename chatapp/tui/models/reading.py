"""Screens that let threads get what they show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from textual.message import Message
from textual.screen import Screen

from chatapp.text.errors import one_line
from chatapp.tui.widgets.ends_once import EndsOnce

Result = TypeVar("Result")
Found = TypeVar("Found")


class Reading(EndsOnce, Screen[Result]):
    """A screen that reads without standing still, and shows only what was asked for last."""

    @dataclass
    class Came(Message):
        """Something has been read, and is taken up so."""

        take: Callable[[], object]

    def __init__(self) -> None:
        super().__init__()
        self.asked = Counter[str]()
        """How often something was read."""

    def read(self, what: str, get: Callable[[], Found], take: Callable[[Found], None]) -> None:
        """Let a thread get something; it is taken up unless the same was asked for again meanwhile."""
        self.asked[what] += 1
        number = self.asked[what]

        def take_latest(found: Found) -> None:
            if number == self.asked[what]:
                take(found)

        def attempt() -> None:
            try:
                found = get()
            except Exception as error:  # told if its message is for the user
                if not (text := one_line(error)):
                    raise
                self.post_message(self.Came(partial(self.tell, what, text)))
            else:
                self.post_message(self.Came(partial(take_latest, found)))

        self.run_worker(attempt, thread=True, group=what)

    def tell(self, what: str, text: str) -> None:
        """Something could not be read."""
        self.notify(text, severity="error", markup=False)

    def say(self, text: str) -> None:
        """Tell the user something in passing."""
        self.notify(text, markup=False, timeout=4)

    def on_reading_came(self, message: Came) -> None:
        message.take()
