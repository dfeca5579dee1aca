"""Widget: a list of rows with a cursor, of which only visible ones are painted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView

from chatapp.tui.theme import painted


class Rows(ScrollView, can_focus=True):
    """Rows with a cursor; subclasses paint them."""

    DEFAULT_CSS = """
    Rows {
        width: 100%;
        height: 1fr;
        padding: 0 2;
        background: $surface;
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS = [
        Binding("up", "walk(-1)", "Row above", show=False),
        Binding("down", "walk(1)", "Row below", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go(0)", "First", show=False),
        Binding("end", "go(-1)", "Last", show=False),
    ]
    HEADING = 0
    """Lines above the rows that do not scroll."""
    rows: Sequence[Any] = ()  # Any: of whatever they tell
    cursor = reactive(0)

    @property
    def place(self) -> int:
        """The row under the cursor."""
        return self.cursor

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, len(self.rows) - 1))

    def go_to(self, row: int) -> None:
        """Move the cursor to a row, or the nearest there is."""
        self.cursor = row

    def measure(self) -> None:
        """Update the scrollable size."""
        self.virtual_size = Size(1, self.HEADING + len(self.rows))

    def mark(self) -> Style:
        """The style of the row under the cursor."""
        if self.app.native_ansi_color:
            return Style(reverse=True)
        return painted(self.app.theme_variables, "text", "selection" if self.has_focus else "panel")

    def reveal(self) -> None:
        """Scroll the row under the cursor into view below the heading."""
        visible, top = max(1, self.scrollable_content_region.height - self.HEADING), self.scroll_offset.y
        if not top <= self.place < top + visible:
            self.scroll_to(
                y=self.place if self.place < top else self.place - visible + 1, animate=False, immediate=True
            )

    def on_resize(self) -> None:
        self.reveal()

    def action_walk(self, by: int) -> None:
        self.go_to(self.place + by)

    def action_page(self, pages: int) -> None:
        self.go_to(self.place + pages * max(1, self.scrollable_content_region.height - self.HEADING - 1))

    def action_go(self, row: int) -> None:
        self.go_to(row % max(1, len(self.rows)))

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if (
            place
            and 0 <= (row := place.y - self.HEADING + self.scroll_offset.y) < len(self.rows)
            and place.y >= self.HEADING
        ):
            self.go_to(row)
