"""Widget: the conversations, the last used first."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from chatapp.terminal import printable

if TYPE_CHECKING:
    from chatapp.history import Conversation

SHOWN = 200
"""Conversations listed at most: search finds the others."""


class Sidebar(OptionList):
    """Conversations by day; the one on the screen is marked, and those that a model is writing to."""

    BINDING_GROUP_TITLE = "List of conversations"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False, id="sidebar.down"),
        Binding("k", "cursor_up", "Up", show=False, id="sidebar.up"),
        Binding("enter", "select", "Open", id="sidebar.open"),
        Binding("r", "want('rename')", "Rename", id="sidebar.rename"),
        Binding("d,delete", "want('delete')", "Delete", id="sidebar.delete"),
        Binding("u", "want('undelete')", "Undo", id="sidebar.undelete"),
        Binding("x", "want('export')", "Export", id="sidebar.export"),
    ]

    @dataclass
    class Wanted(Message):
        """Something is to be done with a conversation: `open`, `rename`, `delete`, `undelete` or `export`."""

        deed: str
        conversation: int | None

    def __init__(self) -> None:
        super().__init__(compact=True)

    def show(self, conversations: Sequence[Conversation], current: int | None, busy: Collection[int]) -> None:
        """List these; the cursor stays with its conversation."""
        under = self.under_cursor
        options: list[Option] = []
        day = ""
        for one in conversations[:SHOWN]:
            if (its_day := named_day(one.updated)) != day:
                day = its_day
                options.append(Option(Content.styled(day, "$muted"), disabled=True))
            mark = ("● ", "$accent") if one.id in busy else ("▸ ", "$accent") if one.id == current else "  "
            title = (printable(one.title) or "…", "bold" if one.id == current else "")
            options.append(Option(Content.assemble(mark, title), id=str(one.id)))
        if len(conversations) > SHOWN:
            options.append(Option(Content.styled("F3 searches the older ones", "$muted"), disabled=True))
        if not conversations:
            options.append(Option(Content.styled("What you say is kept here.", "$muted"), disabled=True))
        self.set_options(options)
        wanted = str(under if under is not None else current)
        ids = [option.id for option in options]
        self.highlighted = ids.index(wanted) if wanted in ids else 1 if conversations else None

    @property
    def under_cursor(self) -> int | None:
        """The conversation that the cursor is on."""
        option = self.highlighted_option
        return int(option.id) if option and option.id else None

    def action_want(self, deed: str) -> None:
        self.post_message(self.Wanted(deed, self.under_cursor))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option.id:
            self.post_message(self.Wanted("open", int(event.option.id)))


def named_day(seconds: float) -> str:
    """The day of a moment, as people call it."""
    days = (date.fromtimestamp(time.time()) - date.fromtimestamp(seconds)).days
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    if days < 7:
        return "Last seven days"
    return date.fromtimestamp(seconds).strftime("%B %Y")
