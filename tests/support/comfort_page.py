"""A page with a list and a text, in an app with our themes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList, Static, TextArea

from chatapp.tui.widgets.vim import Vim
from support.themed_app import ThemedApp


class Box(TextArea):
    """A text that can have vim-like keys."""

    BINDING_GROUP_TITLE = "Prompt"
    BINDINGS = [Binding("ctrl+j,shift+enter", "newline", "New line", id="box.newline")]
    vim: Vim | None = None

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]  # TextArea's runs after it, by itself
        if self.vim and self.vim.press(event):
            event.stop()
            event.prevent_default()


class Page(Screen[None]):
    """Something to look at."""

    BINDINGS = [
        Binding("escape", "stop", "Stop", id="chat.stop"),
        Binding("ctrl+r", "again", "Again", id="chat.again"),
        Binding("ctrl+t", "secret", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Static("above")
        yield OptionList("one", "two", "three")
        yield Box()


class Host(ThemedApp):
    """An app with our themes."""

    CSS = "Page { background: $background; color: $text; } Page Box { height: 8; } Page OptionList { height: 5; }"
    BINDINGS = [Binding("ctrl+q", "quit", "Quit", priority=True, id="app.quit")]
    result: object = "nothing yet"

    def get_default_screen(self) -> Screen[None]:
        return Page()

    @property
    def box(self) -> Box:
        return self.screen_stack[0].query_one(Box)

    def keep(self, result: object) -> None:
        self.result = result


@asynccontextmanager
async def running(theme: str = "midnight", size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Host, Pilot[None]]]:
    app = Host(theme)
    async with app.run_test(size=size) as pilot:
        yield app, pilot
