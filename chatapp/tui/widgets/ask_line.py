"""Screen: one line of text that is asked for."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from chatapp.tui.widgets.textual_fixes import EndsOnce


class AskLine(EndsOnce, ModalScreen[str | None]):
    """Dismisses with the line, or with None where it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", id="line.leave")]

    def __init__(self, question: str, value: str = "", hint: str = "enter takes it, esc leaves things as they are"):
        super().__init__()
        self.question, self.value, self.hint = question, value, hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(self.question, markup=False, classes="heading")
            yield Input(self.value)
            yield Static(self.hint, markup=False, classes="note")

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        self.dismiss(None)
