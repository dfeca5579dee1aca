"""Widget: a text that knows who wrote each of its characters, through edits and undo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from textual.document._document import EditResult, Selection
from textual.document._edit import Edit
from textual.message import Message as Event
from textual.widgets.text_area import Location

from chatapp.text.printable import pasted, printable
from chatapp.tui.widgets.vim_area import VimArea

if TYPE_CHECKING:
    from chatapp.history import Role


@dataclass
class Continuation(Edit):
    """An insertion by the model."""

    number: int = 0
    """Which continuation it belongs to: they are undone whole."""


class Authored(VimArea):
    """What its user and the model wrote, told apart."""

    class Restored(Event):
        """Undo or redo has brought back a text."""

    authors: list[str]
    """For each line of the text, with its end, a line of `u` (user) and `m` (model)."""
    past: dict[int, list[str]]
    """The authors at each depth of the undo history."""
    growing = False
    """Whether the model is writing."""
    number = 0
    """Of the last continuation."""
    head: Location = (0, 0)
    """Where the model writes, or wrote last."""
    mark = ""
    """How that ended, shown behind it."""

    def load(self, parts: Sequence[tuple[Role, str]]) -> None:
        """Show a text of several parts, each with who wrote it."""
        self.load_text("".join(printable(text) for _, text in parts))
        self.credit(parts)
        self.move_cursor(self.document.end)

    def change(self, parts: Sequence[tuple[Role, str]], after: str = "", mark: str = "") -> None:
        """Show another text, with the cursor before what comes `after`; undo brings this one back."""
        parts = [(role, printable(text)) for role, text in (*parts, ("user", after))]
        before, now = self.text, "".join(text for _, text in parts)
        if before != now:
            shared = next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), None)
            shared = min(len(before), len(now)) if shared is None else shared
            start = self.location(shared)
            self.number += 1
            self.selection = Selection()  # while the text shrinks, TextArea looks for the cursor where it was
            self.edit(Continuation(now[shared:], start, self.document.end, False, number=self.number))
        self.credit(parts)
        self.head = self.location(len(now) - len(printable(after)))
        self.move_cursor(self.head)
        self.mark = mark

    @property
    def place(self) -> int:
        """How many characters are before the cursor."""
        return len(self.get_text_range(self.document.start, self.cursor_location))

    def location(self, place: int) -> Location:
        """Where the text of so many characters ends."""
        before = self.text[:place]
        return before.count("\n"), len(before) - before.rfind("\n") - 1

    # Who wrote what

    def parts(self, end: int | None = None) -> list[tuple[Role, str]]:
        """The text up to a character, in parts by who wrote them."""
        found: list[tuple[Role, str]] = []
        text, start = self.text[:end], 0
        for author, run in groupby("".join(self.authors)[:end]):
            length = len(list(run))
            found.append(("assistant" if author == "m" else "user", text[start : start + length]))
            start += length
        return found

    def credit(self, parts: Sequence[tuple[Role, str]]) -> None:
        """Say who wrote which part of the text that there is."""
        every = "".join(("m" if role == "assistant" else "u") * len(printable(text)) for role, text in parts)
        start = 0
        for row, length in enumerate(self.lengths()):
            self.authors[row] = every[start : start + length]
            start += length
        self.notify_style_update()
        self.refresh()

    def lengths(self) -> list[int]:
        """Of the lines, each with its end."""
        lines = self.document.lines
        return [len(line) + 1 for line in lines[:-1]] + [len(lines[-1])]

    def edit(self, edit: Edit) -> EditResult:
        edit.text = pasted(edit.text)
        depth, authors = len(self.history.undo_stack), list(self.authors)
        self.mark = ""
        result = super().edit(edit)
        (top, left), (bottom, right) = edit.top, edit.bottom
        author = "m" if isinstance(edit, Continuation) else "u"
        end_row, end_column = result.end_location
        rows = [author * (len(self.document.get_line(row)) + 1) for row in range(top, end_row)] + [author * end_column]
        rows[0] = authors[top][:left] + rows[0][left:]
        rows[-1] += authors[bottom][right:]
        self.authors[top : bottom + 1] = rows
        if len(self.history.undo_stack) > depth:
            self.past[depth] = authors
        return result

    def load_text(self, text: str) -> None:
        super().load_text(pasted(text))
        self.authors = ["u" * length for length in self.lengths()]
        self.past = {}
        self.mark = ""

    def undo(self) -> None:
        if self.growing:
            return
        self.mark = ""
        number = self.top_number(self.history.undo_stack)
        self.restore(super().undo)
        while number and self.top_number(self.history.undo_stack) == number:
            self.restore(super().undo)
        self.post_message(self.Restored())

    def redo(self) -> None:
        if self.growing:
            return
        number = self.top_number(self.history.redo_stack)
        self.restore(super().redo)
        while number and self.top_number(self.history.redo_stack) == number:
            self.restore(super().redo)
        self.post_message(self.Restored())

    def restore(self, step: Callable[[], None]) -> None:
        """Walk one step through the history, authors included."""
        self.past[len(self.history.undo_stack)] = self.authors
        if self.history.undo_stack or self.history.redo_stack:
            self.selection = Selection()  # while the text shrinks, TextArea looks for the cursor where it was
        step()
        self.authors = list(self.past[len(self.history.undo_stack)])

    @staticmethod
    def top_number(history: list[list[Edit]]) -> int:
        """The continuation on top of a history; 0 if its user's words are."""
        top = history[-1][0] if history else None
        return top.number if isinstance(top, Continuation) else 0
