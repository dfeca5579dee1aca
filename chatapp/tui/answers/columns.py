"""Widget: several answers side by side, to walk between, rank, and choose one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from chatapp.generation.reply import rank
from chatapp.text.printable import printable
from chatapp.tui.answers.column import Column, logprob

if TYPE_CHECKING:
    from chatapp.generation import Delta, FinishReason, Token

WIDTH, HEIGHT = 26, 10
"""Minimum cells and rows of a readable column."""


def rows_of(count: int, size: Size) -> int:
    """In how many rows to arrange the columns; 0 if there is room for only one of them."""
    for rows in range(1, count + 1):
        if rows > 1 and rows * HEIGHT > size.height:
            return 0
        if -(-count // rows) * WIDTH <= size.width:
            return rows
    return 0


class SideBySide(Layout):
    """A line at the top, then the columns in as few rows as possible, or only the current one."""

    name = "side-by-side"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        assert isinstance(parent, Columns)
        parent.pre_layout(self)
        bar, *columns = children
        page = Size(size.width, max(0, size.height - 1))
        rows = rows_of(len(columns), page)
        parent.tabbed = not rows
        shown = [columns[index] for index in (parent.order if rows else [parent.current])]
        regions = [Region(0, 0, size.width, 1), *tiles(len(shown), max(1, rows), page)]
        return [
            WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, widget)
            for widget, region in zip((bar, *shown), regions, strict=True)
        ]


def tiles(count: int, rows: int, size: Size) -> list[Region]:
    """Regions below the first line, a cell apart; the first rows get one more if the count is uneven."""
    regions = []
    for row in range(rows):
        across = (count - row + rows - 1) // rows
        y, below = (size.height * step // rows for step in (row, row + 1))
        edges = [(size.width + 1) * step // across for step in range(across + 1)]
        regions += [Region(x, 1 + y, after - x - 1, below - y) for x, after in zip(edges, edges[1:], strict=False)]
    return regions


class Bar(Widget):
    """The top line: a tab per answer if only one fits, otherwise a caption."""

    def render(self) -> Content:
        parent = self.parent
        assert isinstance(parent, Columns)
        if not parent.tabbed:
            order = "by rank" if parent.by_rank else ""
            left = Content.assemble((f" {parent.caption}", "$muted"))
            room = max(0, self.size.width - len(order) - 2)
            left = left.truncate(room, ellipsis=True)
            return left + Content.assemble(" " * (room - left.cell_length), (order, "$muted"))
        shown = [parent.columns[index] for index in parent.order]
        means = [f" {logprob(column.reply.mean_logprob)}" for column in shown]
        headings = [f" {column.heading}" if column.heading else mean for column, mean in zip(shown, means, strict=True)]
        for names in (headings, means, [""] * len(shown)):  # the longest names that fit
            line = Content("").join([self.tab(column, name) for column, name in zip(shown, names, strict=True)])
            if line.cell_length <= self.size.width:
                break
        return line

    def tab(self, column: Column, name: str) -> Content:
        """The tab of an answer: its number and its name."""
        colours = "bold $background on $accent" if column.current else f"${'text' if column.ended else 'accent'}"
        shown = Content.styled(f" {column.number + 1}{'★' if column.best else ''}{name}", colours)
        return shown.stylize(Style.from_meta({"answer": column.number}))

    def on_click(self, event: events.Click) -> None:
        number = event.style.meta.get("answer")
        if number is not None:
            self.post_message(Column.Clicked(number))


class Columns(Widget, can_focus=True):
    """Two to nine answers, streaming in parallel or one after another."""

    DEFAULT_CSS = """
    Columns {
        height: 1fr;

        Bar {
            height: 1;
        }
    }
    """
    BINDING_GROUP_TITLE = "Several answers"
    BINDINGS = [
        Binding("left", "move(-1)", "Choose", key_display="←→", id="answers.left"),
        Binding("right", "move(1)", show=False, id="answers.right"),
        *(Binding(str(number), f"choose({number - 1})", show=False) for number in range(1, 10)),
        Binding("enter", "keep", "Keep", key_display="⏎", id="answers.keep"),
        Binding("r", "rank", "Rank", id="answers.rank"),
        Binding("h", "heat", "Heat", id="answers.heat"),
        Binding("escape", "stop", "Stop", key_display="esc", id="answers.stop"),
        Binding("escape", "leave", "Back", key_display="esc", id="answers.leave"),
        Binding("up", "read(-1)", show=False),
        Binding("down", "read(1)", show=False),
        Binding("pageup", "turn(-1)", show=False),
        Binding("pagedown", "turn(1)", show=False),
        Binding("home", "read(-1000000000)", show=False),
        Binding("end", "read(1000000000)", show=False),
    ]

    @dataclass
    class Kept(Message):
        """This answer was chosen."""

        index: int

    @dataclass
    class HeatWanted(Message):
        """The token probabilities of this answer should be shown."""

        index: int

    @dataclass
    class Left(Message):
        """The user stops the answers, or leaves after they have ended without choosing one."""

        writing: bool
        """Whether an answer has not ended."""

    def __init__(self, n: int, headings: Sequence[str] = (), *, caption: str | None = None) -> None:
        super().__init__()
        self.tiling, self.bar = SideBySide(), Bar()
        self.columns = [Column(index, headings[index] if headings else "") for index in range(n)]
        self.caption = f"{n} answers; ★ is the likeliest, by mean log-probability" if caption is None else caption
        self.order = list(range(n))
        """Indices of the answers in the order shown."""
        self.by_rank = False
        self.current = 0
        self.tabbed = False
        """Whether only one column fits."""
        self.columns[0].current = True

    @property
    def layout(self) -> Layout:
        return self.tiling  # styles can only name Textual's own layouts

    def compose(self) -> ComposeResult:
        yield self.bar
        yield from self.columns

    # Content

    def take(self, deltas: Sequence[Delta]) -> None:
        """Add deltas to their answers."""
        for index in sorted({delta.index for delta in deltas}):
            mine = [delta for delta in deltas if delta.index == index]
            text = printable("".join(delta.text for delta in mine if delta.channel == "text"))
            self.grow(index, text, [token for delta in mine for token in delta.tokens])
            if reason := mine[-1].finish_reason:
                self.finish(index, reason)

    def grow(self, index: int, text: str, tokens: Sequence[Token]) -> None:
        """Append to an answer."""
        scored = self.scored
        self.columns[index].grow(text, tokens)
        self.show_best()
        if self.scored != scored:
            self.refresh_bindings()

    def finish(self, index: int, finish_reason: FinishReason) -> None:
        """An answer has ended."""
        self.columns[index].finish(finish_reason)
        self.settle()

    def finish_all(self, finish_reason: FinishReason = "cancelled") -> None:
        """The turn has ended, and with it all answers."""
        for column in self.columns:
            if not column.ended:
                column.finish(finish_reason)
        self.settle()

    def fail(self, index: int, error: str) -> None:
        """An answer was cut off."""
        self.columns[index].fail(error)
        self.settle()

    @property
    def writing(self) -> bool:
        """Whether an answer has not ended."""
        return not all(column.ended for column in self.columns)

    @property
    def best(self) -> int:
        """The index of the likeliest answer; 0 if no probabilities are known."""
        return rank([column.reply for column in self.columns])[0]

    @property
    def scored(self) -> bool:
        """Whether probabilities are known."""
        return any(column.reply.scored for column in self.columns)

    def show_best(self) -> None:
        """Show the star at the likeliest answer."""
        best = self.best if self.scored else None
        for column in self.columns:
            if column.best != (column.number == best):
                column.best = not column.best
                column.refresh()
        if self.tabbed:
            self.bar.refresh()

    def settle(self) -> None:
        """Update the order once all answers have ended."""
        self.bar.refresh()
        if not self.writing:
            self.arrange_columns()
            self.refresh_bindings()

    def arrange_columns(self) -> None:
        """Arrange the columns in the current order."""
        replies = [column.reply for column in self.columns]
        self.order = rank(replies) if self.by_rank else list(range(len(replies)))
        self.bar.refresh(layout=True)  # on a child: otherwise Textual reuses the cached arrangement

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "choose":
            return isinstance(parameters[0], int) and parameters[0] < len(self.columns)
        if action in ("stop", "leave"):
            return self.writing == (action == "stop")
        return self.scored if action in ("rank", "heat") else True

    def action_move(self, step: int) -> None:
        """Go to the next or previous answer as shown."""
        place = self.order.index(self.current) + step
        if 0 <= place < len(self.order):
            self.action_choose(self.order[place])

    def action_choose(self, index: int) -> None:
        """Go to an answer."""
        self.columns[self.current].current = False
        self.columns[self.current].refresh()
        self.current = index
        self.columns[index].current = True
        self.columns[index].refresh()
        self.bar.refresh(layout=self.tabbed)

    @on(Column.Clicked)
    def go_to(self, message: Column.Clicked) -> None:
        message.stop()
        self.action_choose(message.number)

    def action_read(self, rows: int) -> None:
        """Scroll the current answer."""
        self.columns[self.current].read(rows)

    def action_turn(self, pages: int) -> None:
        """Scroll the current answer by pages."""
        column = self.columns[self.current]
        column.read(pages * max(1, column.page - 1))

    def action_rank(self) -> None:
        """Toggle between the order by rank and by number."""
        self.by_rank = not self.by_rank
        self.arrange_columns()

    def action_keep(self) -> None:
        self.post_message(self.Kept(self.current))

    def action_heat(self) -> None:
        self.post_message(self.HeatWanted(self.current))

    def action_leave(self) -> None:
        self.post_message(self.Left(self.writing))

    action_stop = action_leave
