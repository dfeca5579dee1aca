"""Screen: shows a letter on each focusable place; pressing it focuses that place."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from chatapp.tui.widgets.textual_fixes import EndsOnce

LETTERS = "asdfghjklqwertyuiopzxcvbnm"
"""In the order in which fingers reach them."""


class Jump(EndsOnce, ModalScreen[Widget | None]):
    """Dismisses with the chosen widget, or None for any other key."""

    CSS = """
    Jump {
        background: transparent;

        .letter {
            position: absolute;
            width: 5;
            height: 1;
            background: $accent;
            color: $background;
            text-style: bold;
            text-align: center;
        }
    }
    """

    def __init__(self, targets: Sequence[Widget]) -> None:
        super().__init__()
        shown = [target for target in targets if target.region and target.is_on_screen]
        self.targets = dict(zip(LETTERS, shown, strict=False))
        self.before = Size()
        """The screen size for which the letters are placed."""

    def compose(self) -> ComposeResult:
        for letter, target in self.targets.items():
            mark = Static(letter.upper(), markup=False, classes="letter")
            mark.styles.offset = (target.region.x, target.region.y)
            yield mark

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(self.targets.get(event.key.lower()))

    def on_click(self, event: events.Click) -> None:
        marks = zip(self.query(".letter"), self.targets.values(), strict=True)
        place = event.screen_offset
        self.dismiss(next((target for mark, target in marks if mark.region.contains_point(place)), None))

    def on_resize(self, event: events.Resize) -> None:
        if self.before and event.size != self.before:
            self.dismiss(None)  # the letters would be at the wrong places
        self.before = event.size
