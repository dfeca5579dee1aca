"""Widget: the line for typing a filter or a search."""

from __future__ import annotations

from typing import Literal

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

Purpose = Literal["filter", "search"]
HINTS: dict[Purpose, tuple[str, str]] = {
    "filter": ("/", "words of a name, use or licence"),
    "search": ("s", "a name; enter searches the Hub"),
}
"""For each purpose: its key, and a hint."""


class FilterLine(Horizontal):
    """A line to type in while open; its Input posts Changed and Submitted."""

    def __init__(self) -> None:
        super().__init__()
        self.mark, self.input = Static("", markup=False), Input(select_on_focus=False)
        self.input.can_focus = False
        self.purpose: Purpose = "filter"

    def compose(self) -> ComposeResult:
        yield self.mark
        yield self.input

    def open(self, purpose: Purpose, value: str = "") -> None:
        """Open it for typing."""
        self.show(purpose, value)
        self.add_class("-open")
        self.input.can_focus = True
        self.screen.set_focus(self.input)  # not Widget.focus, which would be too late for the next key

    def close(self, wanted: str) -> None:
        """Close it; an active filter stays visible."""
        self.input.can_focus = False
        self.show("filter", wanted)
        self.set_class(bool(wanted), "-open")

    def show(self, purpose: Purpose, value: str) -> None:
        """Set the text and its purpose."""
        key, self.input.placeholder = HINTS[purpose]
        self.purpose, self.input.value = purpose, value
        self.mark.update(Content.assemble((f" {key} ", "bold $accent")))

    @property
    def typing(self) -> bool:
        """Whether it has the focus."""
        return self.screen.focused is self.input  # the screen knows before the input does
