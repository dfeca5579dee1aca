"""Widget: one document that its reader and the model write together."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.document._document import EditResult, Selection
from textual.document._edit import Edit
from textual.document._wrapped_document import WrappedDocument
from textual.geometry import Offset, Region
from textual.message import Message
from textual.strip import Strip

from chatapp.tui.widgets.authored_text import Authored, Continuation
from chatapp.tui.widgets.long_lines import Line, Wrapped

if TYPE_CHECKING:
    from chatapp.history import Role

EXAMPLE = "class Account:\n    def __init__(self, name, balance):"
"""What the built-in model goes on with rightly, whichever way its tokens fall."""
COMMAND = re.compile(r"/[A-Za-z?]+(?:\s.*)?")
"""A text that is meant for the application rather than for the model, as long as it is the only line."""
LONGEST = 1000
"""Characters of a line that may decide about the colours of its rows."""
KINDS = ("comment", "string", "keyword", "number", "decorator")


class Notebook(Authored):
    """Text that the model continues in place; it knows who wrote which character."""

    COMPONENT_CLASSES = {"notebook--model", "notebook--mark", *(f"notebook--{kind}" for kind in KINDS)}
    BINDING_GROUP_TITLE = "Text"
    BINDINGS = [
        Binding("ctrl+j,ctrl+enter,f5", "go_on", "Continue", key_display="^J", id="notebook.continue"),
        Binding("ctrl+f", "fill_gap", "Fill gap", key_display="^F", id="notebook.fill"),
        Binding("ctrl+z,super+z", "undo", "Undo", key_display="^Z", id="notebook.undo"),
        Binding(
            "ctrl+underscore", "undo_token", "Undo a token", key_display="^_", show=False, id="notebook.undo_token"
        ),
        Binding("ctrl+up", "walk(-1)", "Older alternative", show=False, id="notebook.older"),
        Binding("ctrl+down", "walk(1)", "Newer alternative", show=False, id="notebook.newer"),
    ]

    painted: LRUCache[tuple[str, str, int, str, str], Strip]
    """Rows by what they depend on: text, authors, width, and for the colours of code the line, and where it begins."""
    patched = False
    """Whether what changes now will be painted later."""

    class Asked(Message):
        """The model should continue the text."""

    class TokenUndone(Message):
        """The model's last token should be taken back."""

    class Walked(Message):
        """An older or newer alternative of the last continuation is to be shown."""

        def __init__(self, step: int) -> None:
            self.step = step
            super().__init__()

    class CommandEntered(Message):
        """The text is a line for the application."""

        def __init__(self, line: str) -> None:
            self.line = line
            super().__init__()

    class HelpWanted(Message):
        """Somebody pressed enter as if to send something."""

    class Interrupted(Message):
        """Its user typed while the model was writing."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self) -> None:
        self.painted = LRUCache(1024)
        self.fences: list[str] = [""]
        """The quotes inside of which each line begins, as far as that is known."""
        self.is_code: bool | None = None
        """Whether the text looks like Python, where somebody has looked."""
        super().__init__(
            tab_behavior="indent", highlight_cursor_line=False, placeholder=EXAMPLE, max_checkpoints=1_000_000
        )
        self.authors, self.past = [""], {}
        self.cursor_blink = self.match_cursor_bracket = False
        keys = self._bindings.key_to_bindings
        for key in ("ctrl+z", "super+z"):  # TextArea's keys come first, but the footer should begin with ours
            keys[key] = keys.pop(key)
        self.gaps = False
        """Whether the model can write between two texts."""
        self.gap = False
        """Whether that was asked for last."""
        self.held = False
        """Whether the view stays where its user scrolled to, while the model writes below."""
        self.left_at = 0.0
        """Where the view was after the model's last words: higher up now means that its user scrolled."""
        self.inside = False
        """Whether there is text behind the cursor."""

    # The model's part

    def begin(self) -> tuple[list[tuple[Role, str]], str]:
        """The model starts to write, in the gap or at the end; gives what is before that place, and the text after."""
        self.number += 1
        self.head = self.cursor_location if self.gap else self.document.end
        self.move_cursor(self.head)
        self.mark = ""
        self.growing = self.read_only = True
        self.left_at = 0.0
        place = self.place
        return self.parts(place), self.text[place:]

    async def grow(self, text: str) -> None:
        """Add text by the model."""
        follows = self.selection == Selection.cursor(self.head)
        held = self.scroll_y < self.left_at
        before = (self.scroll_y, self.show_vertical_scrollbar)
        first = self.wrapped_document.location_to_offset(self.head).y
        with self.patching(held=held):
            self.head = self.edit(
                Continuation(text, self.head, self.head, not follows, number=self.number)
            ).end_location
            if not held:
                self.scroll_cursor_visible()  # once more: now the height of the text is known
                self.left_at = self.scroll_y
        self.vertical_scrollbar.window_virtual_size = self.virtual_size.height
        if (self.scroll_y, self.show_vertical_scrollbar) == before:
            self.refresh_lines(first, self.wrapped_document.height - first)
        else:
            self.refresh(layout=self.show_vertical_scrollbar != before[1])

    @contextmanager
    def patching(self, *, held: bool) -> Iterator[None]:
        """Change the text without painting and arranging the whole page again, which is what costs the time."""
        self.patched, self.held = True, held
        yield
        self.patched = self.held = False

    def finish(self, mark: str = "") -> None:
        """The model has ended; `mark` says how, where that matters."""
        self.growing = self.read_only = False
        self.mark = mark
        self.refresh()

    # How it looks

    @property
    def wrapped_document(self) -> Wrapped:  # TextArea makes one of its own kind
        return self.wrapped

    @wrapped_document.setter
    def wrapped_document(self, made: WrappedDocument) -> None:
        self.wrapped = Wrapped(made.document, tab_width=made._tab_width)

    def get_line(self, line_index: int) -> Text:
        line = Line(self.document[line_index], end="", no_wrap=True)
        for run in re.finditer("m+", self.authors[line_index]):
            line.stylize(self.get_component_rich_style("notebook--model"), *run.span())
        if self.coloured():
            from chatapp.tui.widgets.python_syntax import parse

            for start, end, kind in parse(line.plain, self.fence_before(line_index))[0]:
                line.stylize(self.get_component_rich_style(f"notebook--{kind}", partial=True), start, end)
        if self.mark and line_index == self.head[0]:
            line.append(f"  {self.mark}", self.get_component_rich_style("notebook--mark"))
        return line

    def coloured(self) -> bool:
        """Whether the text is shown in the colours of code: where it looks like Python."""
        if self.is_code is None and self.text:
            from chatapp.tui.widgets.python_syntax import looks_like_python

            self.is_code = looks_like_python(self.document.lines[:200])
        return bool(self.is_code)

    def fence_before(self, row: int) -> str:
        """The quotes inside of which a line begins: lines are read once, and again from where they change."""
        from chatapp.tui.widgets.python_syntax import fence_after

        while len(self.fences) <= row:
            self.fences.append(fence_after(self.document[len(self.fences) - 1], self.fences[-1]))
        return self.fences[row]

    def edit(self, edit: Edit) -> EditResult:
        result = super().edit(edit)
        self.forget_colours(edit.top[0], keep=bool(self.is_code) and bool(edit.text))
        return result

    def load_text(self, text: str) -> None:
        super().load_text(text)
        self.forget_colours(0)

    def restore(self, step: Callable[[], None]) -> None:
        super().restore(step)
        self.forget_colours(0)

    def forget_colours(self, row: int, *, keep: bool = False) -> None:
        """Lines after this one may begin elsewhere; that it is code stays so where one only adds to it."""
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
        # TextArea forgets its rows with every change; most of them only move while the model writes.
        code = (self.document[line][:LONGEST], self.fence_before(line)) if self.coloured() else ("", "")
        key = (self.document[line][start:end], self.authors[line][start:end], self.size.width, *code)
        if key not in self.painted:
            self.painted[key] = super().render_line(y)
        return self.painted[key]

    def singled_out(self, line: int, start: int, end: int | None) -> bool:
        """Whether a row shows more than its text: the cursor, a selection, the mark, or tabs, which vary in width."""
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

    def _on_resize(self) -> None:  # TextArea's, which wraps the text anew, runs after it
        if self.scroll_y < self.left_at:  # its user reads elsewhere, and stays there
            self.left_at = min(self.left_at, self.max_scroll_y)
        else:
            self.left_at = 0.0
            self.call_after_refresh(self.follow_end)

    def follow_end(self) -> None:
        """Show the cursor; who scrolls up from there reads elsewhere."""
        self.scroll_cursor_visible()
        self.left_at = self.scroll_y

    # Keys

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]  # TextArea's runs after it, by itself
        if self.takes(event):
            return
        if self.growing and (event.is_printable or event.key == "enter"):
            self.post_message(self.Interrupted(event.character if event.character and event.is_printable else "\n"))
            event.stop()
        elif event.key == "tab" and not self.text:
            self.insert(EXAMPLE)
            event.stop()
        elif event.key == "enter" and not self.text.strip():
            self.post_message(self.HelpWanted())
            event.stop()
        elif event.key == "enter" and self.command:
            self.post_message(self.CommandEntered(self.text))
            event.stop()
        elif event.key == "enter" and self.document.line_count == 1 and not self.coloured():
            self.post_message(self.HelpWanted())
            return  # TextArea adds the line
        elif event.key != "escape":  # with which TextArea would move the focus
            return
        event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:  # type: ignore[override]
        if self.growing:
            self.post_message(self.Interrupted(event.text))
            event.prevent_default()

    @property
    def command(self) -> bool:
        """Whether the text is a command."""
        return self.text.startswith("/") and self.document.line_count == 1 and bool(COMMAND.fullmatch(self.text))

    def action_go_on(self) -> None:
        if self.command:
            self.post_message(self.CommandEntered(self.text))
            return
        if not self.text.strip():
            self.load_text("")
            self.insert(EXAMPLE)
        self.gap = False
        self.post_message(self.Asked())

    def action_walk(self, step: int) -> None:
        self.post_message(self.Walked(step))

    def action_fill_gap(self) -> None:
        self.gap = True
        self.post_message(self.Asked())

    def action_undo_token(self) -> None:
        self.post_message(self.TokenUndone())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "fill_gap":
            return self.gaps and not self.growing and self.cursor_location != self.document.end
        return not (self.growing and action in ("go_on", "undo", "undo_token", "redo"))

    def on_text_area_selection_changed(self) -> None:
        if self.gaps and self.inside != (inside := self.cursor_location != self.document.end):
            self.inside = inside
            self.refresh_bindings()
