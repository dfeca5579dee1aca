"""The open models, shared by all conversations; threads open them."""

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
"""Models kept in memory; the least recently used one is closed, unless it is writing."""


@dataclass(frozen=True)
class Choice:
    """A model, and the backend to run it on; empty: the best one."""

    model: str
    backend: str = ""

    def __str__(self) -> str:
        return f"{self.model} on {self.backend}" if self.backend else self.model


class Listener(Protocol):
    """The screen, which is told how opening a model goes."""

    def call_later(self, callback: Callable[..., object], *args: object) -> bool: ...
    def show_progress(self, choice: Choice, step: str, share: float) -> None: ...
    def show_warning(self, text: str) -> None: ...
    async def model_opened(self, choice: Choice, opened: Opened) -> None: ...
    def model_failed(self, choice: Choice, error: str) -> None: ...


class Engines:
    """Opens each model once and keeps it for other conversations."""

    def __init__(self, workspace: Workspace, listener: Listener) -> None:
        self.workspace, self.listener = workspace, listener
        self.opened: dict[Choice, Opened] = {}
        """Most recently used last."""
        self.opening: dict[Choice, Thread] = {}

    def get(self, choice: Choice) -> Opened | None:
        """The model if it is open; otherwise starts opening it, and the screen is told when it is."""
        if choice in self.opened:
            self.opened[choice] = self.opened.pop(choice)
            return self.opened[choice]
        if choice not in self.opening:
            self.opening[choice] = Thread(target=self.open, args=(choice,), name="opening", daemon=True)
            self.opening[choice].start()
        return None

    def open(self, choice: Choice) -> None:
        """Open a model; runs in a thread, so that it does not delay the first frame."""
        call_later, screen = self.listener.call_later, self.listener

        def warn(reason: str) -> None:  # may be called in the middle of a reply
            call_later(screen.show_warning, f"{reason}.")

        def report(step: str, share: float) -> None:
            call_later(screen.show_progress, choice, step, share)

        try:
            placement = self.workspace.choose_placement(choice.backend)
            opened = self.workspace.open_model(choice.model, placement, on_progress=report, on_fallback=warn)
            if opened.engine.can_chat:
                import textual.widgets.markdown  # noqa: F401  # slow, so imported before the first answer
        except Exception as error:  # show any error of a runtime on the screen
            call_later(screen.model_failed, choice, describe(error))
        else:
            call_later(screen.model_opened, choice, opened)

    def settle(self, choice: Choice, opened: Opened | None, busy: Collection[Choice] = ()) -> None:
        """A model was opened, or failed to; the least recently used ones that are not busy are closed."""
        self.opening.pop(choice, None)
        if opened:
            self.opened[choice] = opened
            spare = [other for other in self.opened if other not in busy and other != choice]
            for other in spare[: max(0, len(self.opened) - LIMIT)]:
                del self.opened[other]

    def forget(self, model: str) -> None:
        """Close a model that was removed or must be opened anew."""
        for choice in [choice for choice in self.opened if choice.model == model]:
            del self.opened[choice]

    def write_states(self, history: History) -> None:
        """Save the open models' caches of conversations."""
        from chatapp.conversation.states import write_states

        for opened in self.opened.values():
            write_states(opened.engine, history)
