"""Screen: the command palette, which finds commands by their names and shows their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input
from textual.widgets.option_list import Option

from chatapp.commands.actions import rank
from chatapp.text.printable import printable
from chatapp.tui.widgets.windows import Finder

TITLE, KEYS = 29, 8
"""Cells for a row's title and key."""


@dataclass(frozen=True)
class Command:
    """A row of the palette."""

    title: str
    does: str
    key: str
    """As shown."""
    names: tuple[str, ...]
    """Other names by which it is found."""
    act: Callable[[], object]


class CommandPalette(Finder[Command | None]):
    """A filtered list of commands; dismisses with the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", show=False),
        Binding("down", "walk('cursor_down')", show=False),
        Binding("up", "walk('cursor_up')", show=False),
        Binding("pagedown", "walk('page_down')", show=False),
        Binding("pageup", "walk('page_up')", show=False),
    ]
    CSS = """
    CommandPalette {
        align: center top;
        .window { width: 88; max-width: 100%; margin: 1 0 0 0; }
    }
    """

    found: Sequence[Command]

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__()
        self.commands = self.found = commands

    def compose(self) -> ComposeResult:
        with Vertical(classes="window") as box:
            box.border_title, box.border_subtitle = "Commands", "enter runs it, esc goes back"
            yield Input(placeholder="type what you want to do", compact=True, select_on_focus=False)
            yield self.places

    @on(Input.Changed)
    def find(self, message: Input.Changed) -> None:
        names = [(command.title, *command.names) for command in self.commands]
        places = rank(message.value, names) if message.value.strip() else range(len(names))
        self.found = [self.commands[place] for place in places]
        self.show_rows()

    def show_rows(self) -> None:
        """Show the commands found, the best match highlighted."""
        width = min(88, self.app.size.width) - 5  # without border, padding and scroll bar
        none = Option(Content.styled("No command matches.", "$muted"), disabled=True)
        self.places.set_options([Option(row(command, width)) for command in self.found] or [none])
        self.places.highlighted = 0 if self.found else None

    on_mount = on_resize = show_rows


def row(command: Command, width: int) -> Content:
    """Title, description (as far as it fits) and key."""
    room = max(0, width - TITLE - KEYS - 2)
    title = Content(printable(command.title)).truncate(min(TITLE, width - KEYS - 1), ellipsis=True, pad=True)
    does = Content.styled(command.does, "$muted").truncate(room, ellipsis=True, pad=True)
    return Content.assemble(title, " ", does, " ", Content.styled(f"{command.key:>{KEYS}}", "$accent"))
