"""Screen: search the messages of all conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static
from textual.widgets.option_list import Option

from chatapp.text.errors import InputError, one_line
from chatapp.text.printable import printable
from chatapp.tui.opening import Front, Opening
from chatapp.tui.widgets.windows import Finder

if TYPE_CHECKING:
    from chatapp.history import Found

FOUND = 50
"""Maximum matches shown."""


class SearchScreen(Finder["Found | None"]):
    """A search field and its matches; dismisses with the chosen match."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", id="search.leave"),
        Binding("down", "walk('cursor_down')", "Down", show=False, id="search.down"),
        Binding("up", "walk('cursor_up')", "Up", show=False, id="search.up"),
    ]

    def __init__(self, search: Callable[[str, int], Sequence[Found]], words: str = "") -> None:
        super().__init__()
        self.search, self.words = search, words

    @classmethod
    def over(cls, front: Front, words: str = "") -> Opening:
        """Search all conversations, and go to the chosen match."""

        async def take(found: Found | None) -> None:
            if found:
                await front.go_to(found)

        if not (history := front.open_history()):
            raise InputError("there is no history to search")
        return cls(history.search, words), take

    def compose(self) -> ComposeResult:
        with Vertical(classes="window") as box:
            box.border_title, box.border_subtitle = "Search", "enter opens it, esc goes back"
            yield Input(self.words, placeholder="Words in any conversation", compact=True, id="words")
            yield self.places
            self.note = Static("", markup=False, classes="note")
            yield self.note

    @on(Input.Changed)
    def look(self, event: Input.Changed) -> None:
        self.find(event.value)

    @work(thread=True, exclusive=True, group="search")
    def find(self, words: str) -> None:
        try:
            self.call_later(self.show, words, self.search(words, FOUND) if words.strip() else ())
        except Exception as error:  # show any disk error on the screen
            self.call_later(self.show, words, (), one_line(error) or str(error))

    def show(self, words: str, found: Sequence[Found], error: str = "") -> None:
        """Show the matches of a search."""
        if words != self.query_one(Input).value:
            return  # a newer search is running
        self.found = found
        self.places.set_options([Option(described(one)) for one in found])
        if self.found:
            self.places.highlighted = 0
        if error:
            line = error
        elif not words.strip():
            line = "all words must appear; the last may be unfinished"
        elif not self.found:
            line = "nothing found"
        else:
            places = "1 match" if len(self.found) == 1 else f"{len(self.found)} matches"
            line = f"{'the first ' if len(self.found) == FOUND else ''}{places}"
        self.note.update(line)


def described(found: Found) -> Content:
    """A match: the conversation's title, and the snippet with the words marked."""
    snippet, shift = Content(""), 0
    for start, end in found.marks:
        snippet += Content(printable(found.snippet[shift:start]))
        snippet += Content.styled(printable(found.snippet[start:end]), "bold $accent")
        shift = end
    snippet += Content(printable(found.snippet[shift:]))
    title = Content.styled(printable(found.conversation.title), "bold")
    return title if found.message is None else title + "\n  " + snippet
