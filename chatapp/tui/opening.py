"""A model on its way: a thread opens it and posts to the screen how that goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from textual.message import Message

from chatapp.tui.opened import Opened
from chatapp.tui.reply import describe

Open = Callable[[Callable[[str, float], None], Callable[[str], None]], Opened]
"""Opens a model; is given two functions: one to tell the step and the share of it that is done, and one to tell,
then or later, that a backend failed and another goes on."""


class Opening(Thread):
    """Opens a model, so that nothing of it delays the first frame."""

    @dataclass
    class Progressed(Message):
        """Opening takes a while; this is how far it is."""

        step: str
        share: float

    @dataclass
    class Ready(Message):
        """The model is open."""

        opened: Opened

    @dataclass
    class Warned(Message):
        """A backend has failed, and another takes over; this also happens in the middle of a reply."""

        reason: str

    @dataclass
    class Failed(Message):
        """The model could not be opened."""

        error: str

    def __init__(self, open_engine: Open, post: Callable[[Message], bool]) -> None:
        super().__init__(name="opening", daemon=True)
        self.open_engine, self.post = open_engine, post

    def run(self) -> None:
        try:
            opened = self.open_engine(self.report, self.warn)
            if opened.engine.can_chat:
                import textual.widgets.markdown  # noqa: F401  # slow, so imported before the first answer
        except Exception as error:  # whatever a runtime raises belongs on the screen
            self.post(self.Failed(describe(error)))
        else:
            self.post(self.Ready(opened))

    def warn(self, reason: str) -> None:
        """Tell that a backend has failed."""
        self.post(self.Warned(reason))

    def report(self, step: str, share: float) -> None:
        """Tell the progress."""
        self.post(self.Progressed(step, share))
