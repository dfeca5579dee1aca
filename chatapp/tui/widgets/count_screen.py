"""Screen: a number from 2 to 9, by pressing it."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from chatapp.tui.widgets.textual_fixes import EndsOnce


class CountScreen(EndsOnce, ModalScreen[int | None]):
    """Dismisses with how many answers there are to be, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back", id="count.leave")]

    def compose(self) -> ComposeResult:
        digits = [part for n in range(2, 10) for part in ((f" {n} ", "bold $accent"), (" ", ""))]
        with Vertical(classes="window"):
            yield Static("How many answers at once?", markup=False, classes="heading")
            yield Static(Content.assemble(*digits))
            yield Static("press a number; they are decoded together, and one is kept", markup=False, classes="note")

    def on_key(self, event: events.Key) -> None:
        if event.character and event.character in "23456789":
            event.stop()
            self.dismiss(int(event.character))
