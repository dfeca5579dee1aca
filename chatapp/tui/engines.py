"""The models that are open, shared by all conversations; threads open them and tell how that goes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import Thread

from textual.message import Message

from chatapp.tui.threads import describe
from chatapp.workspace import Opened, Workspace

LIMIT = 2
"""Models kept in memory at once; the one not used for longest is let go, unless it is writing."""


@dataclass(frozen=True)
class Choice:
    """A model, and where it is to run; no backend: where it runs best."""

    model: str
    backend: str = ""

    def __str__(self) -> str:
        return f"{self.model} on {self.backend}" if self.backend else self.model


class Opening(Thread):
    """Opens a model, so that nothing of it delays the first frame."""

    @dataclass
    class Progressed(Message):
        """Opening takes a while; this is how far it is."""

        choice: Choice
        step: str
        share: float

    @dataclass
    class Ready(Message):
        """The model is open."""

        choice: Choice
        opened: Opened

    @dataclass
    class Warned(Message):
        """A backend has failed, and another takes over; this also happens in the middle of a reply."""

        choice: Choice
        reason: str

    @dataclass
    class Failed(Message):
        """The model could not be opened."""

        choice: Choice
        error: str

    def __init__(self, choice: Choice, workspace: Workspace, post: Callable[[Message], bool]) -> None:
        super().__init__(name="opening", daemon=True)
        self.choice, self.workspace, self.post = choice, workspace, post

    def run(self) -> None:
        try:
            placement = self.workspace.choose_placement(self.choice.backend)
            opened = self.workspace.open_model(
                self.choice.model, placement, on_progress=self.report, on_fallback=self.warn
            )
            if opened.engine.can_chat:
                import textual.widgets.markdown  # noqa: F401  # slow, so imported before the first answer
        except Exception as error:  # whatever a runtime raises belongs on the screen
            self.post(self.Failed(self.choice, describe(error)))
        else:
            self.post(self.Ready(self.choice, opened))

    def warn(self, reason: str) -> None:
        """Tell that a backend has failed."""
        self.post(self.Warned(self.choice, reason))

    def report(self, step: str, share: float) -> None:
        """Tell the progress."""
        self.post(self.Progressed(self.choice, step, share))


class Engines:
    """Opens what is wanted, once, and keeps it open for the next conversation."""

    def __init__(self, workspace: Workspace, post: Callable[[Message], bool]) -> None:
        self.workspace, self.post = workspace, post
        self.opened: dict[Choice, Opened] = {}
        """The one used last stands last."""
        self.opening: dict[Choice, Opening] = {}

    def get(self, choice: Choice) -> Opened | None:
        """The model, if it is open; it is opened otherwise, and a message tells when it is."""
        if choice in self.opened:
            self.opened[choice] = self.opened.pop(choice)
            return self.opened[choice]
        if choice not in self.opening:
            self.opening[choice] = Opening(choice, self.workspace, self.post)
            self.opening[choice].start()
        return None

    def settle(self, message: Opening.Ready | Opening.Failed, busy: Collection[Choice] = ()) -> None:
        """A model has opened, or has not; what was not used for longest makes room, unless it is busy."""
        self.opening.pop(message.choice, None)
        if isinstance(message, Opening.Ready):
            self.opened[message.choice] = message.opened
            spare = [choice for choice in self.opened if choice not in busy and choice != message.choice]
            for choice in spare[: max(0, len(self.opened) - LIMIT)]:
                del self.opened[choice]

    def forget(self, model: str) -> None:
        """Let go of a model that was removed, or is to be opened anew."""
        for choice in [choice for choice in self.opened if choice.model == model]:
            del self.opened[choice]
