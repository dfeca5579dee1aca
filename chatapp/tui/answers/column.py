"""Widget: one of several answers, while it is written and after."""

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
"""How an answer ended, in words, and the theme's colour for them."""
WHEEL = 3
"""Rows that a turn of the wheel moves."""


class Column(Removable, Widget):
    """A title, the text as it comes, and its figures; it follows the end as long as that is in sight.

    It scrolls and wraps by itself: text that grows arranges no screen anew.
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
        """Its user pointed at this answer."""

        number: int

    def __init__(self, number: int, heading: str = "") -> None:
        self.painted: LRUCache[tuple[str, bool, int], Strip] = LRUCache(512)
        """Rows by what they depend on: text, thumb, width; most of them only move."""
        self.sight = 0, 0, 0
        """The first row in sight, and the lines of the thumb, while lines are rendered."""
        super().__init__()
        self.number, self.heading = number, printable(heading)
        """Its place, counted from 0."""
        self.wrapped = Wrapped(80)
        self.reply = Reply()
        self.state, self.tone = "○ waiting", "muted"
        self.ended = False
        self.notes: tuple[Content, ...] = ()
        """More lines of figures."""
        self.best = False
        self.current = False
        self.below = False
        """Whether the mean log-probability stands below the text, for want of room above it."""
        self.held: int | None = None
        """The first row in sight, where its user went back in the text."""

    # What comes

    def grow(self, text: str, tokens: Sequence[Token]) -> None:
        """Add to the answer."""
        if not self.ended:
            self.state, self.tone = "● writing", "accent"
        self.reply.text += text
        self.reply.add_tokens(tokens)
        self.write(text)

    def write(self, text: str) -> None:
        """Show more text."""
        before = self.top, self.thumb()
        first = self.wrapped.grow(text)
        if before == (self.top, self.thumb()):
            width, height = self.size
            y = min(height - self.foot, 1 + max(0, first - self.top))
            self.refresh(Region(0, 0, width, 1), Region(0, y, width, height - y))
        else:
            self.refresh()

    def finish(self, reason: FinishReason) -> None:
        """It has ended, and how."""
        self.ended = True
        self.say(*ENDINGS[reason])

    def fail(self, error: str) -> None:
        """It was cut off; the error stands below what there is."""
        self.ended = True
        self.write(f"\n{error}" if self.wrapped.rows[-1] else error)
        self.say("✗ failed", "error")

    def say(self, state: str, tone: str = "muted") -> None:
        """Show another state, in a colour of the theme."""
        self.state, self.tone = state, tone
        self.refresh()

    def note(self, *lines: Content) -> None:
        """Show these lines below the figures."""
        if len(lines) != len(self.notes):
            self.refresh()
        self.notes = lines
        self.refresh(Region(0, self.size.height - self.foot, self.size.width, self.foot))

    # Where it is read

    @property
    def foot(self) -> int:
        """Lines below the text."""
        return 1 + len(self.notes)

    @property
    def page(self) -> int:
        """Rows of text in sight."""
        return max(1, self.size.height - 1 - self.foot)

    @property
    def last_top(self) -> int:
        """The first row in sight at the very end."""
        return max(0, len(self.wrapped.rows) - self.page)

    @property
    def top(self) -> int:
        """The first row in sight."""
        return self.last_top if self.held is None else min(self.held, self.last_top)

    def read(self, rows: int) -> None:
        """Move through the text; at the end it follows again."""
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

    # How it looks

    def render_lines(self, crop: Region) -> list[Strip]:
        self.sight = self.top, *self.thumb()  # the same for all of the lines
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
        """A row of text; the thumb is in its last cell."""
        style = self.visual_style.rich_style
        strip = Strip([Segment(f" {text}", style)]).adjust_cell_length(width - 1, style)
        edge = Segment("▐", self.get_component_rich_style("column--thumb")) if thumb else Segment(" ", style)
        return Strip([*strip, edge], width)

    def notify_style_update(self) -> None:
        self.painted.clear()
        super().notify_style_update()

    def strip_of(self, content: Content) -> Strip:
        """One line of content."""
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
            mean = Content()  # a name says more
        room = max(0, room - mean.cell_length)
        heading = heading.truncate(room, ellipsis=True)
        line = rank + mean + heading + Content(" " * (room - heading.cell_length)) + state
        return line.truncate(width).stylize_before(base)

    @property
    def mean(self) -> Content:
        """The mean log-probability, by which answers are ranked."""
        return Content(f" {logprob(self.reply.mean_logprob)}") if self.reply.scored else Content()

    def figures(self, line: int, width: int) -> Content:
        """The line of figures, or one of the notes below it; the mean log-probability comes first where it is here."""
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
        """Which lines of the page tell where in the text it is; none where all of the text is in sight."""
        rows, page = len(self.wrapped.rows), self.page
        if rows <= page:
            return 0, 0
        length = max(1, page * page // rows)
        start = round((page - length) * self.top / self.last_top)
        return start, start + length


def logprob(mean: float | None) -> str:
    """A mean log-probability as it is shown."""
    return "–" if mean is None else f"{mean:.2f}".replace("-", "−")
