"""Widget: a text with its tokens coloured by probability."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from chatapp.evaluation.measurements import UNLIKELY_LOGPROB
from chatapp.generation.delta import Token
from chatapp.tui.insight.shades import shades, step
from chatapp.tui.insight.wrapping import Flow
from chatapp.tui.theme import painted

GUESSED = Style(italic=True)
"""Added to the look of a token that was drafted by speculative decoding."""


def looks(widget: Widget) -> tuple[Style, ...]:
    """The looks of the probability steps in the current theme."""
    app = widget.app
    return shades(app.theme_variables, plain=app.native_ansi_color or app.no_color)


def marks(widget: Widget) -> tuple[Style, Style, Style]:
    """The looks of a token without probability, and of the cursor without and with focus."""
    if widget.app.native_ansi_color or widget.app.no_color:
        return Style(dim=True), Style(reverse=True), Style(reverse=True, bold=True)
    colour, bold = widget.app.theme_variables, Style(bold=True)
    return (
        painted(colour, "muted"),
        painted(colour, "text", "selection") + bold,
        painted(colour, "background", "accent") + bold,
    )


class HeatText(ScrollView, can_focus=True):
    """The text, painted row by row, and a cursor that moves by tokens."""

    BINDINGS = [
        Binding("left", "walk(-1)", "Previous token", show=False),
        Binding("right", "walk(1)", "Next token", show=False),
        Binding("up", "climb(-1)", "Row above", show=False),
        Binding("down", "climb(1)", "Row below", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "edge(-1)", "Row's first token", show=False),
        Binding("end", "edge(1)", "Row's last token", show=False),
        Binding("ctrl+home", "go(0)", "First token", show=False),
        Binding("ctrl+end", "go(-1)", "Last token", show=False),
        Binding("n", "unlikely(1)", "Next unlikely", id="heat.unlikely"),
        Binding("N", "unlikely(-1)", "Previous unlikely", show=False, id="heat.unlikely_before"),
    ]
    cursor = reactive(0)
    """The index of the token it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[Token] = []
        self.steps: list[int | None] = []
        self.flow = Flow(80)
        self.column = 0
        """The column the cursor returns to in rows that are long enough."""
        self._looks: tuple[Style, ...] = ()
        """For each step, for tokens without probability, and for the cursor without and with focus."""

    def grow(self, tokens: Sequence[Token], *, follow: bool) -> None:
        """Add tokens; with `follow`, view and cursor stay at the end if they were there."""
        follows = follow and self.is_vertical_scroll_end
        leads = follow and self.cursor >= len(self.tokens) - 1
        self.tokens += tokens
        self.steps += [None if token.logprob is None else step(token.logprob) for token in tokens]
        self.flow.grow([token.text for token in tokens])
        self.measure()
        if follows:
            self.scroll_end(animate=False)
        if leads:
            self.action_go(-1)

    def measure(self) -> None:
        """Update the scrollable size."""
        self.virtual_size = Size(self.flow.width, len(self.flow.rows))
        self.refresh()

    def on_resize(self) -> None:
        width = self.scrollable_content_region.width
        if width and width != self.flow.width:
            self.flow.rewrap(width)
            self.measure()
            self.reveal()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._looks = ()

    # Painting

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        page = self.rich_style
        if row >= len(self.flow.rows):
            return Strip.blank(width, page)
        if not self._looks:
            self._looks = tuple(page + look for look in (*looks(self), *marks(self)))
        shown = self.flow.host(self.cursor) if self.tokens else -1
        pieces = [Segment(piece.text, self.look(piece.token, shown)) for piece in self.flow.rows[row]]
        return Strip(pieces, sum(piece.width for piece in self.flow.rows[row])).adjust_cell_length(width, page)

    def look(self, token: int, shown: int) -> Style:
        """The style of a token; `shown` is the token at the cursor."""
        *steps, unknown, blurred, focused = self._looks
        if token == shown:
            return focused if self.has_focus else blurred
        heat = self.steps[token]
        style = unknown if heat is None else steps[heat]
        return style + GUESSED if self.tokens[token].guessed else style

    # The cursor

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, len(self.tokens) - 1))

    def watch_cursor(self, cursor: int) -> None:
        if self.tokens:
            self.reveal()
            self.refresh()

    def reveal(self) -> None:
        """Scroll to the cursor."""
        if self.tokens:
            row, _ = self.flow.place(self.cursor)
            self.scroll_to_region(Region(0, row, 1, 1), animate=False, immediate=True)

    def move(self, token: int) -> None:
        """Move the cursor to a token, and remember the column."""
        self.cursor = token
        if self.tokens:
            self.column = self.flow.place(self.cursor)[1]

    def action_walk(self, by: int) -> None:
        self.move(self.cursor + by)

    def action_climb(self, rows: int) -> None:
        if self.tokens:
            row = self.flow.place(self.cursor)[0] + rows
            if 0 <= row < len(self.flow.rows):
                self.land(row)

    def land(self, row: int) -> None:
        """Move the cursor to a row, near its column: to a token that begins in it, if there is one."""
        token = self.flow.at(row, self.column)
        if self.flow.place(token)[0] < row:
            begun = [piece.token for piece in self.flow.rows[row] if self.flow.place(piece.token)[0] == row]
            token = begun[0] if begun else token + 1 if self.flow.place(self.cursor)[0] < row else token
        self.cursor = token

    def action_page(self, pages: int) -> None:
        if self.tokens:
            row = self.flow.place(self.cursor)[0] + pages * max(1, self.scrollable_content_region.height - 1)
            self.land(max(0, min(row, len(self.flow.rows) - 1)))

    def action_edge(self, side: int) -> None:
        if self.tokens:
            row = self.flow.rows[self.flow.place(self.cursor)[0]]
            self.move(row[-1 if side > 0 else 0].token)

    def action_go(self, token: int) -> None:
        self.move(token % max(1, len(self.tokens)))

    def action_unlikely(self, by: int) -> None:
        """Go to the next token less likely than even, wrapping around."""
        total = len(self.tokens)
        for away in range(1, total + 1):
            token = (self.cursor + by * away) % total
            logprob = self.tokens[token].logprob
            if logprob is not None and logprob < UNLIKELY_LOGPROB:
                return self.move(token)

    def on_click(self, event: events.Click) -> None:
        if self.tokens:
            place = event.get_content_offset(self)
            if place:
                self.move(self.flow.at(place.y + self.scroll_offset.y, place.x))
