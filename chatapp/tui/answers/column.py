"""Widget: one of several answers, during and after writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual import events
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from chatapp.generation import Reply
from chatapp.text.printable import printable
from chatapp.text.units import rate
from chatapp.tui.answers.wrapping import Wrapped
from chatapp.tui.widgets.textual_fixes import Removable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatapp.generation import FinishReason, Token

ENDINGS = {"stop": ("● done", "success"), "length": ("■ length", "warning"), "cancelled": ("■ stopped", "warning")}
"""By finish reason: the state in words, and its theme colour."""
WHEEL = 3
"""Rows per turn of the mouse wheel."""


class Column(Removable, Widget):
    """A title, the growing text, and its figures; it follows the end while that is visible.

    It scrolls and wraps its text itself, so that growing text needs no layout of the screen.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Column .column--thumb {
        color: $muted;
    }
    """
    COMPONENT_CLASSES = {"column--thumb"}

    @dataclass
    class Clicked(Message):
        """The user clicked this answer."""

        number: int

    def __init__(self, number: int, heading: str = "") -> None:
        self.painted: LRUCache[tuple[str, bool, int], Strip] = LRUCache(512)
        """Painted rows by text, thumb and width: most rows only move."""
        self.sight = 0, 0, 0
        """The first visible row, and the lines of the scroll thumb, during `render_lines`."""
        super().__init__()
        self.number, self.heading = number, printable(heading)
        """The index of the answer from 0, and its heading."""
        self.wrapped = Wrapped(80)
        self.reply = Reply()
        self.state, self.tone = "○ waiting", "muted"
        self.ended = False
        self.notes: tuple[Content, ...] = ()
        """More lines below the figures."""
        self.best = False
        self.current = False
        self.below = False
        """Whether the mean log-probability is shown below the text because the title has no room."""
        self.held: int | None = None
        """The first visible row if the user scrolled up; None: follow the end."""

    # Content

    def grow(self, text: str, tokens: Sequence[Token]) -> None:
        """Append to the answer."""
        if not self.ended:
            self.state, self.tone = "● writing", "accent"
        self.reply.text += text
        self.reply.add_tokens(tokens)
        self.write(text)

    def write(self, text: str) -> None:
        """Append text, repainting only what changes."""
        before = self.top, self.thumb()
        first = self.wrapped.grow(text)
        if before == (self.top, self.thumb()):
            width, height = self.size
            y = min(height - self.foot, 1 + max(0, first - self.top))
            self.refresh(Region(0, 0, width, 1), Region(0, y, width, height - y))
        else:
            self.refresh()

    def finish(self, reason: FinishReason) -> None:
        """The answer has ended."""
        self.ended = True
        self.say(*ENDINGS[reason])

    def fail(self, error: str) -> None:
        """The answer was cut off; the error is shown below it."""
        self.ended = True
        self.write(f"\n{error}" if self.wrapped.rows[-1] else error)
        self.say("✗ failed", "error")

    def say(self, state: str, tone: str = "muted") -> None:
        """Show a state in a theme colour."""
        self.state, self.tone = state, tone
        self.refresh()

    def note(self, *lines: Content) -> None:
        """Show lines below the figures."""
        if len(lines) != len(self.notes):
            self.refresh()
        self.notes = lines
        self.refresh(Region(0, self.size.height - self.foot, self.size.width, self.foot))

    # Scrolling

    @property
    def foot(self) -> int:
        """Lines below the text."""
        return 1 + len(self.notes)

    @property
    def page(self) -> int:
        """Rows of text that fit."""
        return max(1, self.size.height - 1 - self.foot)

    @property
    def last_top(self) -> int:
        """The first visible row when scrolled to the end."""
        return max(0, len(self.wrapped.rows) - self.page)

    @property
    def top(self) -> int:
        """The first visible row."""
        return self.last_top if self.held is None else min(self.held, self.last_top)

    def read(self, rows: int) -> None:
        """Scroll by rows; at the end it follows again."""
        top = max(0, self.top + rows)
        self.held = top if top < self.last_top else None
        self.refresh()

    def on_resize(self) -> None:
        before = len(self.wrapped.rows)
        self.wrapped.resize(max(1, self.size.width - 2))
        if self.held:
            self.held = self.held * len(self.wrapped.rows) // before
        self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.read(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.read(-WHEEL)

    def on_click(self) -> None:
        self.post_message(self.Clicked(self.number))

    # Painting

    def render_lines(self, crop: Region) -> list[Strip]:
        self.sight = self.top, *self.thumb()  # computed once for all lines
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if y == 0:
            return self.strip_of(self.title(width))
        if y >= height - self.foot:
            return self.strip_of(self.figures(y - height + self.foot, width))
        top, start, end = self.sight
        row = top + y - 1
        text = self.wrapped.rows[row] if row < len(self.wrapped.rows) else ""
        key = text, start < y <= end, width
        if key not in self.painted:
            self.painted[key] = self.row_of(text, width, thumb=key[1])
        return self.painted[key]

    def row_of(self, text: str, width: int, *, thumb: bool) -> Strip:
        """A row of text, with the scroll thumb in its last cell."""
        style = self.visual_style.rich_style
        strip = Strip([Segment(f" {text}", style)]).adjust_cell_length(width - 1, style)
        edge = Segment("▐", self.get_component_rich_style("column--thumb")) if thumb else Segment(" ", style)
        return Strip([*strip, edge], width)

    def notify_style_update(self) -> None:
        self.painted.clear()
        super().notify_style_update()

    def strip_of(self, content: Content) -> Strip:
        """A line of content as a strip."""
        return Visual.to_strips(self, content, self.size.width, 1, self.visual_style)[0]

    def title(self, width: int) -> Content:
        """Number, rank, heading and state."""
        base = "$background on $accent" if self.current else "$text on $panel"
        rank = Content.assemble((f" {self.number + 1}", "bold"), " ★" if self.best else "")
        mean = self.mean
        state = Content.assemble((f" {self.state} ", "" if self.current else f"${self.tone}"))
        heading = Content(f" {self.heading}" if self.heading else "")
        room = max(0, width - rank.cell_length - state.cell_length)
        self.below = bool(heading) and heading.cell_length + mean.cell_length > room
        if self.below:
            mean = Content()  # the heading is more important
        room = max(0, room - mean.cell_length)
        heading = heading.truncate(room, ellipsis=True)
        line = rank + mean + heading + Content(" " * (room - heading.cell_length)) + state
        return line.truncate(width).stylize_before(base)

    @property
    def mean(self) -> Content:
        """The mean log-probability, by which answers are ranked."""
        return Content(f" {logprob(self.reply.mean_logprob)}") if self.reply.scored else Content()

    def figures(self, line: int, width: int) -> Content:
        """The line of figures (0), or one of the notes below it."""
        if line:
            return (Content(" ") + self.notes[line - 1]).truncate(width, ellipsis=True)
        count, per_second = len(self.reply.tokens), self.reply.tokens_per_second
        if not count:
            return Content()
        parts = [(f" {count:,}", "$text"), (" token" if count == 1 else " tokens", "$muted")]
        if self.below and self.reply.scored:
            parts = [(self.mean.plain, "bold $text"), (" log-prob ", "$muted"), *parts]
        if per_second:
            parts += [(f"  {rate(per_second)}", "$text"), (" tok/s", "$muted")]
        return Content.assemble(*parts).truncate(width, ellipsis=True)

    def thumb(self) -> tuple[int, int]:
        """The first and last line of the scroll thumb; 0, 0 if all text is visible."""
        rows, page = len(self.wrapped.rows), self.page
        if rows <= page:
            return 0, 0
        length = max(1, page * page // rows)
        start = round((page - length) * self.top / self.last_top)
        return start, start + length


def logprob(mean: float | None) -> str:
    """A mean log-probability as it is shown."""
    return "–" if mean is None else f"{mean:.2f}".replace("-", "−")
