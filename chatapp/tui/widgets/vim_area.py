"""Widget: a text area with optional vim keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.document._document import EditResult, Selection
from textual.document._edit import Edit
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from chatapp.text.printable import clean_paste
from chatapp.tui.widgets.textual_fixes import Removable

if TYPE_CHECKING:
    from chatapp.tui.widgets.vim import Vim


class VimArea(Removable, TextArea):
    """A text area that accepts no control characters, with vim keys if the user wants them."""

    BINDINGS: ClassVar[list[BindingType]] = [  # TextArea has no keys for the ends of the text
        Binding("ctrl+home", "cursor_text_start", "Beginning of the text", show=False),
        Binding("ctrl+end", "cursor_text_end", "End of the text", show=False),
        Binding("ctrl+shift+home", "cursor_text_start(True)", "Select to the beginning", show=False),
        Binding("ctrl+shift+end", "cursor_text_end(True)", "Select to the end", show=False),
    ]

    vim: Vim | None = None
    busy: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the model is writing; escape then stops it as well."""

    @dataclass
    class CommandEntered(Message):
        """A slash command was entered and removed from the text."""

        line: str

    @dataclass
    class Counted(Message):
        """The number of tokens of the text with its attachments; None if it cannot be counted."""

        tokens: int | None

    @dataclass
    class ModeShown(Message):
        """The vim mode, or the command being typed, has changed."""

        indicator: str

    class SuspendWanted(Message):
        """Ctrl+Z was pressed with nothing typed and nothing to undo."""

    def render_line(self, y: int) -> Strip:
        if self.content_size.width <= 0:  # Textual fails to wrap a placeholder at no width
            return Strip([])
        return super().render_line(y)

    def on_mount(self) -> None:
        if getattr(self.app, "vim", False):
            from chatapp.tui.widgets.vim import Vim

            self.vim = Vim(self)

    def on_focus(self) -> None:
        if self.vim:
            self.post_message(self.ModeShown(self.vim.indicator))

    def edit(self, edit: Edit) -> EditResult:
        edit.text = clean_paste(edit.text)
        return super().edit(edit)

    def undo(self) -> None:
        if self.history.undo_stack:
            self.selection = Selection()  # TextArea would look up the old cursor in the shorter text
            super().undo()

    def redo(self) -> None:
        if self.history.redo_stack:
            self.selection = Selection()
            super().redo()

    def action_cursor_text_start(self, select: bool = False) -> None:
        self.move_cursor(self.document.start, select)

    def action_cursor_text_end(self, select: bool = False) -> None:
        self.move_cursor(self.document.end, select)

    def action_undo(self) -> None:
        """Undo; with nothing to undo, ctrl+z suspends as in a shell."""
        if self.text or self.history.undo_stack or self.history.redo_stack:
            self.undo()
        else:
            self.post_message(self.SuspendWanted())

    def takes(self, event: events.Key) -> bool:
        """Whether vim mode has handled a key, so that nothing else should."""
        if not self.vim or not self.vim.press(event):
            return False
        event.prevent_default()
        if event.key != "escape" or not self.busy():
            event.stop()
        self.post_message(self.ModeShown(self.vim.indicator))
        return True
