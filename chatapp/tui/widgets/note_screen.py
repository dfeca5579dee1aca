"""Screen: some lines to read."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from chatapp.text.markdown import cut
from chatapp.text.printable import printable
from chatapp.tui.widgets.textual_fixes import EndsOnce

MOST = 30
"""Lines that are seen at once."""
EDGES = 8
"""Lines of the window that are not the text's."""


class NoteScreen(EndsOnce, ModalScreen[None]):
    """A heading and a text that may be longer than the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back", id="note.leave")]

    def __init__(self, heading: str, text: str) -> None:
        super().__init__()
        self.heading, self.lines = heading, printable(cut(text))

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(self.heading, markup=False, classes="heading")
            with VerticalScroll(classes="lines"):
                yield Static(self.lines, markup=False)
            yield Static("esc goes back", markup=False, classes="note")

    def on_resize(self, event: events.Resize) -> None:
        """The end of the text can be scrolled to on a low screen, too."""
        self.query_one(".lines").styles.max_height = max(1, min(MOST, event.size.height * 9 // 10 - EDGES))
