"""A model on its way: a thread opens it and posts to the screen how that goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from textual.message import Message

from chatapp.tui.opened import Opened
from chatapp.tui.reply import describe

Open = Callable[[Callable[[str, float], None]], Opened]
"""Opens a model; is given a function to report its progress to: the step, and the share of it that is done."""


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
    class Failed(Message):
        """The model could not be opened."""

        error: str

    def __init__(self, open_engine: Open, post: Callable[[Message], bool]) -> None:
        super().__init__(name="opening", daemon=True)
        self.open_engine, self.post = open_engine, post

    def run(self) -> None:
        try:
            opened = self.open_engine(self.report)
            if opened.engine.can_chat:
                import textual.widgets.markdown  # noqa: F401  # slow, so imported before the first answer
        except Exception as error:  # whatever a runtime raises belongs on the screen
            self.post(self.Failed(describe(error)))
        else:
            self.post(self.Ready(opened))

    def report(self, step: str, share: float) -> None:
        """Tell the progress."""
        self.post(self.Progressed(step, share))
