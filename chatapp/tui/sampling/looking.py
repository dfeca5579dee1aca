"""Previews computed beside the screen: one at a time, and always the newest options next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from textual.message import Message

from chatapp.text.errors import one_line
from chatapp.text.printable import printable

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
        self.thread: Thread | None = None
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
        self.thread = Thread(target=self.run, args=(options,), name="preview", daemon=True)
        self.thread.start()

    def run(self, options: Options) -> None:
        """The thread."""
        try:
            ended = self.Ended(self.look(options))
        except Exception as error:  # whatever the runtime raises belongs on the screen
            ended = self.Ended(None, printable(one_line(error) or f"{type(error).__name__}: {error}"))
        self.post(ended)
