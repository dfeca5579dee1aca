"""A page with the columns of several answers; it remembers what is posted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.app import ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

from chatapp.tui.answers.columns import Columns
from support.themed_app import ThemedApp

PROSE = "the quick brown fox jumps over the lazy dog and on and on " * 100


def shown(widget: Widget) -> list[str]:
    """The lines of a widget as they are on the screen."""
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


class Page(ThemedApp):
    """An app that shows columns and keeps what they post."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.columns = columns
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.columns

    def on_mount(self) -> None:
        self.columns.focus()

    def on_columns_kept(self, message: Columns.Kept) -> None:
        self.posted.append(message)

    def on_columns_heat_wanted(self, message: Columns.HeatWanted) -> None:
        self.posted.append(message)

    def on_columns_left(self, message: Columns.Left) -> None:
        self.posted.append(message)


@asynccontextmanager
async def paged(n: int, *headings: str, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Page, Pilot[None]]]:
    app = Page(Columns(n, headings))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot
