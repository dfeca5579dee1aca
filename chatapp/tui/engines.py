"""The models that are open, shared by all conversations; threads open them and tell how that goes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from chatapp.tui.threads import describe
from chatapp.workspace import Opened, Workspace

if TYPE_CHECKING:
    from chatapp.history import History

LIMIT = 2
"""Models kept in memory at once; the one not used for longest is let go, unless it is writing."""


@dataclass(frozen=True)
class Choice:
    """A model, and where it is to run; no backend: where it runs best."""

    model: str
    backend: str = ""

    def __str__(self) -> str:
        return f"{self.model} on {self.backend}" if self.backend else self.model


class Listener(Protocol):
    """The screen that the models are for, and that hears how opening them goes; called by `call_later`."""

    def call_later(self, callback: Callable[..., object], *args: object) -> bool: ...
    def show_progress(self, choice: Choice, step: str, share: float) -> None: ...
    def tell(self, text: str) -> None: ...
    async def take_up(self, choice: Choice, opened: Opened) -> None: ...
    def do_without(self, choice: Choice, error: str) -> None: ...


class Engines:
    """Opens what is wanted, once, and keeps it open for the next conversation."""

    def __init__(self, workspace: Workspace, listener: Listener) -> None:
        self.workspace, self.listener = workspace, listener
        self.opened: dict[Choice, Opened] = {}
        """The one used last stands last."""
        self.opening: dict[Choice, Thread] = {}

    def get(self, choice: Choice) -> Opened | None:
        """The model, if it is open; it is opened otherwise, and the screen hears when it is."""
        if choice in self.opened:
            self.opened[choice] = self.opened.pop(choice)
            return self.opened[choice]
        if choice not in self.opening:
            self.opening[choice] = Thread(target=self.open, args=(choice,), name="opening", daemon=True)
            self.opening[choice].start()
        return None

    def open(self, choice: Choice) -> None:
        """The thread that opens a model, so that nothing of it delays the first frame."""
        tell, screen = self.listener.call_later, self.listener

        def warn(reason: str) -> None:  # also in the middle of a reply
            tell(screen.tell, f"{reason}.")

        def report(step: str, share: float) -> None:
            tell(screen.show_progress, choice, step, share)

        try:
            placement = self.workspace.choose_placement(choice.backend)
            opened = self.workspace.open_model(choice.model, placement, on_progress=report, on_fallback=warn)
            if opened.engine.can_chat:
                import textual.widgets.markdown  # noqa: F401  # slow, so imported before the first answer
        except Exception as error:  # whatever a runtime raises belongs on the screen
            tell(screen.do_without, choice, describe(error))
        else:
            tell(screen.take_up, choice, opened)

    def settle(self, choice: Choice, opened: Opened | None, busy: Collection[Choice] = ()) -> None:
        """A model has opened, or has not; what was not used for longest makes room, unless it is busy."""
        self.opening.pop(choice, None)
        if opened:
            self.opened[choice] = opened
            spare = [other for other in self.opened if other not in busy and other != choice]
            for other in spare[: max(0, len(self.opened) - LIMIT)]:
                del self.opened[other]

    def forget(self, model: str) -> None:
        """Let go of a model that was removed, or is to be opened anew."""
        for choice in [choice for choice in self.opened if choice.model == model]:
            del self.opened[choice]

    def write_states(self, history: History) -> None:
        """Let the models that are open write what they have read of conversations: it need not be read again."""
        from chatapp.conversation.states import write_states

        for opened in self.opened.values():
            write_states(opened.engine, history)
