"""Previews computed beside the screen: one at a time, and always the newest options next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from chatapp.tui.threads import Drain

if TYPE_CHECKING:
    from chatapp.generation import Options
    from chatapp.generation.decoding.preview import Preview

Look = Callable[["Options"], "Preview | None"]
"""What some options make of the next token; None where there is nothing to preview. It may take its time."""


class Looking:
    """Asks in a thread of its own; whoever started it takes what comes back, in the screen's thread."""

    @dataclass
    class Ended(Message):
        """A preview has been computed, or could not be."""

        preview: Preview | None
        error: str = ""

    def __init__(self, look: Look, post: Callable[[Message], bool]) -> None:
        self.look, self.post = look, post
        self.thread: Drain[Preview | None] | None = None
        self.next: Options | None = None

    def ask(self, options: Options) -> None:
        """Compute this one as soon as the one before is done; whatever waited is forgotten."""
        self.next = options
        if not self.thread:
            self.start()

    def take(self) -> bool:
        """To be called with each `Ended`: go on with what was asked meanwhile; whether there is none."""
        self.thread = None
        if self.next:
            self.start()
        return not self.thread

    def start(self) -> None:
        options, self.next = self.next, None
        assert options
        self.thread = Drain((self.look(one) for one in (options,)), self.end, name="preview")
        self.thread.start()

    def end(self, thread: Drain[Preview | None]) -> None:
        """Tell what was computed, or why it could not be."""
        self.post(self.Ended(next(iter(thread.take()), None), thread.error))
