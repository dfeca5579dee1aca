"""Widget: a text that knows the author of each character, through edits and undo."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from os.path import commonprefix
from typing import TYPE_CHECKING, Self

from rich.text import Text
from textual.cache import LRUCache
from textual.document._document import EditResult, Selection
from textual.document._edit import Edit
from textual.document._wrapped_document import WrappedDocument
from textual.geometry import Offset, Region
from textual.message import Message as Event
from textual.strip import Strip
from textual.widgets.text_area import Location

from chatapp.text.printable import clean_paste, printable
from chatapp.tui.widgets.long_lines import Line, Wrapped
from chatapp.tui.widgets.vim_area import VimArea

if TYPE_CHECKING:
    from chatapp.history import Role

LONGEST = 1000
"""Characters of a line that are considered for syntax colours."""
KINDS = ("comment", "string", "keyword", "number", "decorator")


@dataclass
class Continuation(Edit):
    """An insertion by the model."""

    number: int = 0
    """The continuation it belongs to; continuations are undone as a whole."""


class AuthoredText(VimArea):
    """A text by user and model, told apart by colour; with syntax colours if it looks like Python."""

    COMPONENT_CLASSES = {"authored--model", "authored--mark", *(f"authored--{kind}" for kind in KINDS)}

    class Restored(Event):
        """Undo or redo has restored a text."""

    authors: list[str]
    """For each line with its end, a string of `u` (user) and `m` (model)."""
    past: dict[int, list[str]]
    """The authors at each depth of the undo history."""
    growing = False
    """Whether the model is writing."""
    number = 0
    """The number of the last continuation."""
    head: Location = (0, 0)
    """Where the model is writing, or wrote last."""
    mark = ""
    """Shown after the model's text: how it ended."""
    painted: LRUCache[tuple[str, str, int, str, str], Strip]
    """Painted rows by text, authors, width and, with syntax colours, the line and the quotes open before it."""
    patched = False
    """Whether changes are painted later, in one go."""
    held = False
    """Whether the view stays where the user scrolled to, while the model writes below."""
    followed_to = 0.0
    """The scroll position after the model's last text; a smaller one now means the user scrolled up."""

    def __init__(self, placeholder: str) -> None:
        self.painted = LRUCache(1024)
        self.fences: list[str] = [""]
        """The quotes that are open at the beginning of each line, as far as known."""
        self.is_code: bool | None = None
        """Whether the text looks like Python; None if not checked yet."""
        super().__init__(
            tab_behavior="indent", highlight_cursor_line=False, placeholder=placeholder, max_checkpoints=1_000_000
        )
        self.authors, self.past = [""], {}
        self.cursor_blink = self.match_cursor_bracket = False

    def load(self, parts: Sequence[tuple[Role, str]]) -> None:
        """Show a text in parts by author."""
        self.load_text("".join(printable(text) for _, text in parts))
        self.set_authors(parts)
        self.move_cursor(self.document.end)

    def change(self, parts: Sequence[tuple[Role, str]], after: str = "", mark: str = "") -> None:
        """Show another text, with the cursor before `after`; undo restores the old one."""
        parts = [(role, printable(text)) for role, text in (*parts, ("user", after))]
        before, now = self.text, "".join(text for _, text in parts)
        if before != now:
            shared = len(commonprefix([before, now]))
            start = self.location(shared)
            self.number += 1
            stood = self.selection
            self.selection = Selection()  # TextArea would look up the old cursor in the shorter text
            edit = Continuation(now[shared:], start, self.document.end, False, number=self.number)
            self.edit(edit)
            edit._original_selection = stood  # restored by undo
        self.set_authors(parts)
        self.head = self.location(len(now) - len(printable(after)))
        self.move_cursor(self.head)
        self.mark = mark

    @property
    def place(self) -> int:
        """The number of characters before the cursor."""
        return len(self.get_text_range(self.document.start, self.cursor_location))

    def location(self, place: int) -> Location:
        """The location after this many characters."""
        before = self.text[:place]
        return before.count("\n"), len(before) - before.rfind("\n") - 1

    # Authors

    def parts(self, end: int | None = None) -> list[tuple[Role, str]]:
        """The text up to a character, in parts by author."""
        found: list[tuple[Role, str]] = []
        text, start = self.text[:end], 0
        for author, run in groupby("".join(self.authors)[:end]):
            length = len(list(run))
            found.append(("assistant" if author == "m" else "user", text[start : start + length]))
            start += length
        return found

    def set_authors(self, parts: Sequence[tuple[Role, str]]) -> None:
        """Set the authors of the text."""
        every = "".join(("m" if role == "assistant" else "u") * len(printable(text)) for role, text in parts)
        start = 0
        for row, length in enumerate(self.lengths()):
            self.authors[row] = every[start : start + length]
            start += length
        self.notify_style_update()
        self.refresh()

    def lengths(self) -> list[int]:
        """The length of each line with its end."""
        lines = self.document.lines
        return [len(line) + 1 for line in lines[:-1]] + [len(lines[-1])]

    def edit(self, edit: Edit) -> EditResult:
        depth, authors = len(self.history.undo_stack), list(self.authors)
        self.mark = ""
        result = super().edit(edit)
        (top, left), (bottom, right) = edit.top, edit.bottom
        author = "m" if isinstance(edit, Continuation) else "u"
        end_row, end_column = result.end_location
        rows = [author * (len(self.document.get_line(row)) + 1) for row in range(top, end_row)] + [author * end_column]
        rows[0] = authors[top][:left] + rows[0][left:]
        rows[-1] += "".join(authors[bottom : bottom + 1])[right:]  # a slice: the last line may have been deleted
        self.authors[top : bottom + 1] = rows
        if len(self.history.undo_stack) > depth:
            self.past[depth] = authors
        self.forget_colours(top, keep=bool(self.is_code) and bool(edit.text))
        return result

    def load_text(self, text: str) -> None:
        super().load_text(clean_paste(text))
        self.authors = ["u" * length for length in self.lengths()]
        self.past = {}
        self.mark = ""
        self.forget_colours(0)

    def undo(self) -> None:
        if not self.growing:
            self.mark = ""
            self.travel(super().undo, lambda: self.history.undo_stack)

    def redo(self) -> None:
        if not self.growing:
            self.travel(super().redo, lambda: self.history.redo_stack)

    def travel(self, step: Callable[[], None], stack: Callable[[], list[list[Edit]]]) -> None:
        """Undo or redo one step, or a whole continuation."""
        number = self.top_number(stack())
        self.restore(step)
        while number and self.top_number(stack()) == number:
            self.restore(step)
        self.post_message(self.Restored())

    def restore(self, step: Callable[[], None]) -> None:
        """Undo or redo one step, authors included."""
        self.past[len(self.history.undo_stack)] = self.authors
        step()
        self.authors = list(self.past[len(self.history.undo_stack)])
        self.forget_colours(0)

    @staticmethod
    def top_number(history: list[list[Edit]]) -> int:
        """The continuation on top of a history; 0 if it is the user's edit."""
        top = history[-1][0] if history else None
        return top.number if isinstance(top, Continuation) else 0

    # Text by the model

    def add(self, text: str) -> None:
        """Append text by the model."""
        follows = self.selection == Selection.cursor(self.head)
        held = self.scroll_y < self.followed_to
        before = (self.scroll_y, self.show_vertical_scrollbar)
        first = self.wrapped_document.location_to_offset(self.head).y
        # Avoid repainting and laying out the whole page, which is what costs time.
        self.patched, self.held = True, held
        self.head = self.edit(Continuation(text, self.head, self.head, not follows, number=self.number)).end_location
        if not held:
            self.scroll_cursor_visible()  # again, since the height of the text is known only now
            self.followed_to = self.scroll_y
        self.patched = self.held = False
        self.vertical_scrollbar.window_virtual_size = self.virtual_size.height
        if (self.scroll_y, self.show_vertical_scrollbar) == before:
            self.refresh_lines(first, self.wrapped_document.height - first)
        else:
            self.refresh(layout=self.show_vertical_scrollbar != before[1])

    # Painting

    @property
    def wrapped_document(self) -> Wrapped:  # replaces the one that TextArea creates
        return self.wrapped

    @wrapped_document.setter
    def wrapped_document(self, made: WrappedDocument) -> None:
        self.wrapped = Wrapped(made.document, tab_width=made._tab_width)

    def get_line(self, line_index: int) -> Text:
        line = Line(self.document[line_index], end="", no_wrap=True)
        for run in re.finditer("m+", self.authors[line_index]):
            line.stylize(self.get_component_rich_style("authored--model"), *run.span())
        if self.coloured():
            from chatapp.tui.widgets.python_syntax import parse

            for start, end, kind in parse(line.plain, self.fence_before(line_index))[0]:
                line.stylize(self.get_component_rich_style(f"authored--{kind}", partial=True), start, end)
        if self.mark and line_index == self.head[0]:
            line.append(f"  {self.mark}", self.get_component_rich_style("authored--mark"))
        return line

    def coloured(self) -> bool:
        """Whether syntax colours are used, because the text looks like Python."""
        if self.is_code is None and self.text:
            from chatapp.tui.widgets.python_syntax import looks_like_python

            self.is_code = looks_like_python(self.document.lines[:200])
        return bool(self.is_code)

    def fence_before(self, row: int) -> str:
        """The quotes open at the beginning of a line; computed once, and again after changes."""
        from chatapp.tui.widgets.python_syntax import fence_after

        while len(self.fences) <= row:
            self.fences.append(fence_after(self.document[len(self.fences) - 1], self.fences[-1]))
        return self.fences[row]

    def forget_colours(self, row: int, *, keep: bool = False) -> None:
        """Forget the state after a line; `keep` whether it is code, if text was only added to it."""
        del self.fences[row + 1 :]
        if not keep:
            self.is_code = None

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        if row >= self.wrapped_document.height:
            return super().render_line(y)
        line, start = self.wrapped_document.offset_to_location(Offset(0, row))
        offsets = self.wrapped_document.get_offsets(line)
        end = offsets[place] if (place := bisect_right(offsets, start)) < len(offsets) else None
        if self.singled_out(line, start, end):
            return super().render_line(y)
        # TextArea drops its cached rows at every change, though most only move while the model writes.
        code = (self.document[line][:LONGEST], self.fence_before(line)) if self.coloured() else ("", "")
        key = (self.document[line][start:end], self.authors[line][start:end], self.size.width, *code)
        if key not in self.painted:
            self.painted[key] = super().render_line(y)
        return self.painted[key]

    def singled_out(self, line: int, start: int, end: int | None) -> bool:
        """Whether a row cannot be cached: it has the cursor, a selection, the mark, or tabs of varying width."""
        row, column = self.cursor_location
        if self.selection.is_empty:
            touched = line == row and start <= column and (end is None or column <= end)
        else:
            touched = self.selection.contains_line(line)
        return touched or bool(self.mark and line == self.head[0]) or "\t" in self.document[line]

    def notify_style_update(self) -> None:
        self.painted.clear()
        super().notify_style_update()

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        return Offset() if self.held else super().scroll_cursor_visible(center, animate)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if self.patched:
            return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def _on_resize(self) -> None:  # runs before TextArea's, which wraps the text again
        if self.scroll_y < self.followed_to:  # the user scrolled up: stay there
            self.followed_to = min(self.followed_to, self.max_scroll_y)
        else:
            self.followed_to = 0.0
            self.call_after_refresh(self.follow_end)

    def follow_end(self) -> None:
        """Scroll to the cursor and follow it."""
        self.scroll_cursor_visible()
        self.followed_to = self.scroll_y
