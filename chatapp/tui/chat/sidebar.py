"""Widget: the list of conversations, the last used first, with a filter."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from chatapp.text.printable import printable
from chatapp.tui.widgets.textual_fixes import Choices

if TYPE_CHECKING:
    from chatapp.history import Conversation

PAGE = 200
"""Conversations listed at first, and added each time the end comes near."""
NEAR = 20
"""Rows from the end at which more are listed."""
WIDTH = 34
"""Cells per row."""


@dataclass(frozen=True)
class Row:
    """A row of the list: a conversation, or a heading with a day."""

    title: str
    id: str | None = None
    mark: str = " "
    when: str = ""
    about: str = ""
    """Its model and number of messages."""

    @property
    def option(self) -> Option:
        """The row as an option of the list."""
        if self.id is None:
            return Option(Content.styled(self.title, "$muted"), disabled=True)
        title = Content(self.title).truncate(WIDTH - 3 - len(self.when), ellipsis=True, pad=True)
        style = "bold $accent" if self.mark == "▸" else ""
        line = Content.assemble((f"{self.mark} ", "$accent"), title.stylize(style), " ", (self.when, "$muted"))
        return Option(line, id=self.id)


class Sidebar(Choices):
    """Conversations by day; the one shown and those in progress are marked."""

    BINDING_GROUP_TITLE = "List of conversations"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False, id="sidebar.down"),
        Binding("k", "cursor_up", "Up", show=False, id="sidebar.up"),
        Binding("enter", "select", "Open", id="sidebar.open"),
        Binding("slash", "filter", "Filter", id="sidebar.filter"),
        Binding("r", "want('rename')", "Rename", id="sidebar.rename"),
        Binding("p", "want('pin')", "Pin", id="sidebar.pin"),
        Binding("d,delete", "want('delete')", "Delete", key_display="d", id="sidebar.delete"),
        Binding("u", "want('undelete')", "Restore", id="sidebar.undelete"),
        Binding("x", "want('export')", "Export", id="sidebar.export"),
    ]
    note = reactive("")
    """The last action; shown until the cursor moves."""

    @dataclass
    class Wanted(Message):
        """An action is wanted for a conversation: `open`, `rename`, `pin`, `delete`, `undelete` or `export`."""

        action: str
        conversation: int | None

    class Listed(Message):
        """`words` or `limit` has changed: the list should be updated."""

    def __init__(self) -> None:
        super().__init__(compact=True)
        self.words, self.limit, self.total = "", PAGE, 0
        self.filtering = False
        """Whether letters go to the filter instead of being keys."""
        self.leap = ""
        """Where the cursor goes at the next update: `first`, `last`, or nowhere."""
        self.rows: list[Row] = []

    def show(
        self,
        conversations: Sequence[Conversation],
        current: int | None,
        busy: Collection[int],
        *,
        total: int,
        none: str = "",
    ) -> None:
        """List these conversations of `total`; the cursor stays on its conversation."""
        under, place, self.total = self.under_cursor, self.highlighted, total
        rows: list[Row] = []
        day = ""
        for one in conversations:
            if (its_day := "Pinned" if one.pinned else named_day(one.updated)) != day:
                day = its_day
                rows.append(Row(day))
            mark = "●" if one.id in busy else "▸" if one.id == current else " "
            size = f"{one.messages:,} message{'s' * (one.messages != 1)}" if one.messages else "draft"
            about = f"{size} · {printable(one.model)}"
            rows.append(Row(printable(one.title) or "…", str(one.id), mark, moment(one.updated), about))
        if not rows:
            rows.append(Row("No title contains these words." if self.words else none))
        before, self.rows = self.rows, rows
        if rows[: len(before)] == before:  # rows were only added: keep the scroll position
            self.add_options([row.option for row in rows[len(before) :]])
        else:
            self.set_options([row.option for row in rows])
        ids = [row.id for row in rows]
        there = [index for index, number in enumerate(ids) if number]
        if self.leap or not there:
            place = None if not there else there[0] if self.leap == "first" else there[-1]
        elif (wanted := str(current if under is None else under)) in ids:
            place = ids.index(wanted)
        else:  # it is gone: take the next one, skipping headings
            place = next((index for index in there if index >= (place or 0)), there[-1])
        self.leap = ""
        if self.highlighted != place:
            self.highlighted = place
        self.show_details()

    @property
    def under_cursor(self) -> int | None:
        """The id of the conversation under the cursor."""
        option = self.highlighted_option
        return int(option.id) if option and option.id else None

    # Title and subtitle

    def show_details(self) -> None:
        """Show the filter above the list, and details of the row under the cursor below it."""
        count = f"{self.total:,}"
        if self.filtering:
            self.border_title = Content.assemble(("/", "bold $accent"), (f"{printable(self.words)}▏ ", "$text"), count)
        elif self.words:
            self.border_title = Content.assemble((f"/{printable(self.words)} ", "$accent"), count)
        else:
            self.border_title = Content(f"{count} conversation{'s' * (self.total != 1)}")
        row = self.rows[self.highlighted] if self.rows and self.highlighted is not None else None
        about = Content.styled(self.note, "bold $warning") if self.note else Content(row.about if row else "")
        self.border_subtitle = about.truncate(WIDTH, ellipsis=True)

    def watch_note(self) -> None:
        self.show_details()

    def watch_highlighted(self, highlighted: int | None) -> None:
        super().watch_highlighted(highlighted)
        if highlighted is not None and highlighted >= self.option_count - NEAR:
            self.list_more()
        self.show_details()

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if new > old and new >= self.max_scroll_y - NEAR:
            self.list_more()

    def list_more(self, limit: int = 0) -> None:
        """List more conversations, if there are more."""
        if self.limit < self.total:
            self.limit = limit or self.limit + PAGE
            self.post_message(self.Listed())

    # The filter

    def action_filter(self) -> None:
        """Let typed letters filter the titles."""
        self.filtering = True
        self.show_details()

    def filter(self, words: str) -> None:
        """List only conversations whose titles contain these words."""
        self.words, self.limit, self.leap = words, PAGE, "first"
        self.scroll_home(animate=False)
        self.post_message(self.Listed())
        self.show_details()

    def leave_filter(self) -> bool:
        """Clear the filter; returns whether there was one."""
        if not self.filtering and not self.words:
            return False
        self.filtering = False
        self.filter("")
        self.leap = ""
        return True

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return self.filtering and (key in ("backspace", "delete") or bool(character and character.isprintable()))

    def on_key(self, event: events.Key) -> None:
        self.note = ""
        if event.key == "escape" and self.leave_filter():
            pass
        elif not self.filtering:
            return
        elif event.key == "tab":  # keep the filter, but let letters be keys again
            self.filtering = False
            self.show_details()
        elif event.key in ("backspace", "delete"):
            self.filter(self.words[:-1])
        elif event.key == "ctrl+u":
            self.filter("")
        elif event.is_printable and event.character:
            self.filter(self.words + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        if self.filtering:
            self.filter(self.words + " ".join(event.text.split()))

    def action_last(self) -> None:
        """Go to the oldest conversation, listing all of them first."""
        if self.limit < self.total:
            self.leap = "last"
            self.list_more(self.total)
        else:
            super().action_last()

    # Actions

    def action_want(self, action: str) -> None:
        self.post_message(self.Wanted(action, self.under_cursor))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option.id:
            self.leave_filter()
            self.post_message(self.Wanted("open", int(event.option.id)))


def named_day(seconds: float) -> str:
    """The heading for a time: a day or a month."""
    days = (date.fromtimestamp(time.time()) - date.fromtimestamp(seconds)).days
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    if days < 7:
        return "Last seven days"
    return date.fromtimestamp(seconds).strftime("%B %Y")


def moment(seconds: float) -> str:
    """A time, as short as its distance allows: time of day, weekday, or date."""
    then = datetime.fromtimestamp(seconds)
    days = (date.fromtimestamp(time.time()) - then.date()).days
    if days <= 1:
        return f"{then:%H:%M}"
    return f"{then:%a}" if days < 7 else f"{then.day} {then:%b}"
