"""Widget: a table of tokens with their latencies and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from chatapp.evaluation.measurements import Step
from chatapp.text.units import bar, milliseconds
from chatapp.tui.insight.panel import named, percent
from chatapp.tui.insight.wrapping import label
from chatapp.tui.theme import painted
from chatapp.tui.widgets.rows import Rows

MISSING = "–"
LONGEST = 32
"""Maximum columns of a token's text next to a bar."""
FIGURE = 12
"""Columns of each of the last two figures."""


def figures(width: int) -> int:
    """How many of the last two figures fit."""
    return min(2, max(0, (width - 26) // FIGURE))


class TokenTable(Rows):
    """A line for each token, in order or slowest first."""

    BINDINGS = [Binding("s", "sort", "Sort", id="latencies.sort")]
    HEADING = 1
    rows: Sequence[Step]
    slowest_first = reactive(False)

    @dataclass
    class Moved(Message):
        """The cursor is on another token."""

        step: Step

    def __init__(self, steps: Sequence[Step], first: int = 1) -> None:
        super().__init__()
        self.steps = self.rows = steps
        self.first = first
        """The number of the token whose latency includes the prompt; it has no bar."""
        self.longest = max((step.seconds or 0.0 for step in steps[first:]), default=0.0)

    def on_mount(self) -> None:
        self.measure()

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
        """The parts of a token's line."""
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

    def room(self, width: int) -> tuple[int, int]:
        """Columns of the text and of the bar, which a narrow screen omits."""
        rest = max(6, width - 20 - FIGURE * figures(width))
        bars = max(rest // 2, rest - LONGEST) if rest >= 24 else 0
        return rest - bars, bars

    def cells(
        self, width: int, number: str, text: str, latency: str, strip: str, share: str, elapsed: str
    ) -> tuple[str, str, str, str]:
        """A line in parts that differ in colour."""
        names, bars = self.room(width)
        name = Content(text).truncate(names, ellipsis=True)
        padded = name.plain + " " * (names - name.cell_length)
        last = "".join(f"{figure:>{FIGURE}}" for figure in (share, elapsed)[: figures(width)])
        return f"{number:>7}  ", f"{padded}{latency:>9}  ", f"{strip:{bars}}", last

    # The cursor

    def watch_cursor(self, cursor: int) -> None:
        if self.rows:
            self.reveal()
            self.post_message(self.Moved(self.rows[cursor]))
        self.refresh()

    def action_sort(self) -> None:
        self.slowest_first = not self.slowest_first

    def watch_slowest_first(self, slowest_first: bool) -> None:
        """Sort the rows; the cursor goes to the first one."""
        self.rows = sorted(self.steps, key=lambda step: -(step.seconds or 0.0)) if slowest_first else self.steps
        self.scroll_to(y=0, animate=False)
        self.cursor = 0
        self.watch_cursor(0)

    def on_click(self, event: events.Click) -> None:
        """Sort on a click on the heading."""
        if (place := event.get_content_offset(self)) and place.y == 0:
            event.prevent_default()  # it is not a click on a row
            self.action_sort()
