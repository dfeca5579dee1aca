"""Widget: the tokens of an answer with their latencies and probabilities, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chatapp.evaluation.measurements import Step
from chatapp.text.units import bar, milliseconds
from chatapp.tui.insight.panel import named, percent
from chatapp.tui.insight.shades import painted
from chatapp.tui.insight.wrapping import label

MISSING = "–"
LONGEST = 32
"""Columns that a token's text takes at most where there are bars."""
FIGURE = 12
"""Columns of each of the last two figures."""


def figures(width: int) -> int:
    """How many of the last two figures there is room for: a part of one would be another figure."""
    return min(2, max(0, (width - 26) // FIGURE))


class TokenTable(ScrollView, can_focus=True):
    """One line for each token, in the order of writing or the slowest first; only what is seen is painted."""

    DEFAULT_CSS = """
    TokenTable {
        width: 100%;
        height: 1fr;
        padding: 0 2;
        background: $surface;
        color: $text;
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS = [
        Binding("up", "walk(-1)", "Token above", show=False),
        Binding("down", "walk(1)", "Token below", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go(0)", "First", show=False),
        Binding("end", "go(-1)", "Last", show=False),
        Binding("s", "sort", "Sort", id="latencies.sort"),
    ]
    cursor = reactive(0)
    """The row it is on."""
    slowest_first = reactive(False)

    @dataclass
    class Moved(Message):
        """The cursor is on another token."""

        step: Step

    def __init__(self, steps: Sequence[Step], first: int = 1) -> None:
        super().__init__()
        self.steps = self.rows = steps
        self.first = first
        """The number of the token whose latency holds the prompt's time; it has no bar."""
        self.longest = max((step.seconds or 0.0 for step in steps[first:]), default=0.0)

    def on_mount(self) -> None:
        self.virtual_size = Size(1, len(self.rows) + 1)

    # Painting

    def render_line(self, y: int) -> Strip:
        """The heading, which does not scroll, or a row."""
        width, page = self.scrollable_content_region.width, self.rich_style
        colours = [painted(self.app.theme_variables, name) for name in ("muted", "text", "accent", "text")]
        row = y - 1 + self.scroll_offset.y
        if y == 0:
            first, second = ("#", "▾ latency") if self.slowest_first else ("▴ #", "latency")
            parts = self.cells(width, first, "token", second, "", "probability", "since start")
            colours = colours[:1] * 4
        elif row >= len(self.rows):
            return Strip.blank(width, page)
        else:
            parts = self.row(self.rows[row], width)
            if row == self.cursor:
                page += self.mark()
        segments = [Segment(part, page + colour) for part, colour in zip(parts, colours, strict=True)]
        return Strip(segments).adjust_cell_length(width, page)

    def row(self, step: Step, width: int) -> tuple[str, str, str, str]:
        """A token's line."""
        share = (step.seconds or 0.0) / self.longest if self.longest and step.number > self.first else 0.0
        return self.cells(
            width,
            f"{step.number:,}",
            label(named(step.token)) if step.token else MISSING,
            MISSING if step.seconds is None else milliseconds(step.seconds),
            bar(share, self.room(width)[1]),
            MISSING if step.logprob is None else percent(step.logprob),
            MISSING if step.elapsed is None else milliseconds(step.elapsed),
        )

    def mark(self) -> Style:
        """The look of the row with the cursor."""
        if self.app.native_ansi_color:
            return Style(reverse=True)
        return painted(self.app.theme_variables, "text", "selection" if self.has_focus else "panel")

    def room(self, width: int) -> tuple[int, int]:
        """Columns of the text and of the bar, for which a narrow screen has no room."""
        rest = max(6, width - 20 - FIGURE * figures(width))
        bars = max(rest // 2, rest - LONGEST) if rest >= 24 else 0
        return rest - bars, bars

    def cells(
        self, width: int, number: str, text: str, latency: str, strip: str, share: str, elapsed: str
    ) -> tuple[str, str, str, str]:
        """The parts of a line that differ in colour."""
        names, bars = self.room(width)
        name = Content(text).truncate(names, ellipsis=True)
        padded = name.plain + " " * (names - name.cell_length)
        last = "".join(f"{figure:>{FIGURE}}" for figure in (share, elapsed)[: figures(width)])
        return f"{number:>7}  ", f"{padded}{latency:>9}  ", f"{strip:{bars}}", last

    # The cursor

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, len(self.rows) - 1))

    def watch_cursor(self, cursor: int) -> None:
        if self.rows:
            self.reveal()
            self.post_message(self.Moved(self.rows[cursor]))
        self.refresh()

    def reveal(self) -> None:
        """Scroll to the cursor, which the heading covers no row of."""
        visible = max(1, self.scrollable_content_region.height - 1)
        top = self.scroll_offset.y
        if not top <= self.cursor < top + visible:
            self.scroll_to(
                y=self.cursor if self.cursor < top else self.cursor - visible + 1, animate=False, immediate=True
            )

    def on_resize(self) -> None:
        self.reveal()

    def action_walk(self, by: int) -> None:
        self.cursor += by

    def action_page(self, pages: int) -> None:
        self.cursor += pages * max(1, self.scrollable_content_region.height - 2)

    def action_go(self, row: int) -> None:
        self.cursor = row % max(1, len(self.rows))

    def action_sort(self) -> None:
        self.slowest_first = not self.slowest_first

    def watch_slowest_first(self, slowest_first: bool) -> None:
        """Sort; the cursor goes to the first row."""
        self.rows = sorted(self.steps, key=lambda step: -(step.seconds or 0.0)) if slowest_first else self.steps
        self.scroll_to(y=0, animate=False)
        self.cursor = 0
        self.watch_cursor(0)

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if not place:
            return
        if place.y == 0:
            self.action_sort()
        elif place.y - 1 + self.scroll_offset.y < len(self.rows):
            self.cursor = place.y - 1 + self.scroll_offset.y
