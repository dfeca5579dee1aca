"""Screen: a few lines of text to edit, checked before they are accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from chatapp.generation import OptionError
from chatapp.text.printable import printable
from chatapp.tui.widgets.textual_fixes import EndsOnce


class LinesScreen(EndsOnce, ModalScreen[Any]):  # Any: what the lines mean; None where they are left as they were
    """A small editor; dismisses with the meaning of the lines, or None."""

    CSS_PATH = "screens.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j", "keep", "Use", key_display="^J", id="lines.keep"),
        Binding("escape", "dismiss(None)", "Cancel", key_display="esc", id="lines.leave"),
    ]

    def __init__(self, title: str, hint: str, lines: str, check: Callable[[str], Any]) -> None:
        """`check` returns the meaning of the lines, or raises an OptionError."""
        super().__init__()
        self.heading, self.hint, self.lines, self.check = title, hint, lines, check

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(self.heading, id="title", markup=False)
            yield Static(self.hint, classes="note", markup=False)
            yield TextArea(self.lines, compact=True, highlight_cursor_line=False)
            yield Static("", id="refusal", markup=False)
            yield Static("[@click=screen.keep]^J[/] use   [@click=app.simulate_key('escape')]esc[/] cancel", id="keys")

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.cursor_blink = False
        area.move_cursor(area.document.end)
        self.told()

    @on(TextArea.Changed)
    def told(self) -> None:
        """Show what is wrong at once."""
        try:
            self.check(self.query_one(TextArea).text)
        except OptionError as error:
            refusal = printable(str(error))
        else:
            refusal = ""
        self.query_one("#refusal", Static).update(refusal)

    def action_keep(self) -> None:
        try:
            value = self.check(self.query_one(TextArea).text)
        except OptionError:
            return  # the error is already shown
        self.dismiss(value)
