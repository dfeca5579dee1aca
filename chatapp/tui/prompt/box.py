"""Widget: a text area that folds long pastes and highlights mentions."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.binding import Binding

from chatapp.commands.parse import FENCE, text_of
from chatapp.conversation.attachments import Attachment, mentions
from chatapp.text.printable import clean_paste
from chatapp.tui.prompt.pastes import Pastes
from chatapp.tui.widgets.vim_area import VimArea


class Box(VimArea):
    """A text area that grows to ten rows."""

    COMPONENT_CLASSES = {"box--token"}
    DEFAULT_CSS = """
    Box {
        height: auto;
        max-height: 10;

        .box--token { color: $accent; text-style: bold; }
        .text-area--suggestion { color: $text-muted; }
    }
    """
    BINDINGS = [
        Binding("ctrl+j,shift+enter", "newline", "New line", key_display="^J", id="prompt.newline"),
        Binding("f4", "expand", "Expand paste", id="prompt.expand"),
    ]

    def __init__(self, placeholder: str) -> None:
        self.pastes = Pastes()
        self.known: dict[str, Attachment] = {}
        """The attachments the draft mentions, as last read."""
        super().__init__(compact=True, highlight_cursor_line=False, placeholder=placeholder)
        self.cursor_blink = False

    @property
    def draft(self) -> str:
        """The text with pastes unfolded; setting it can be undone."""
        return self.pastes.unfold(self.text)

    @draft.setter
    def draft(self, text: str) -> None:
        self.put(self.pastes.fold(clean_paste(text)))

    def put(self, text: str) -> None:
        """Replace the whole text, with the cursor at its end."""
        self.history.checkpoint()
        self.replace(text, self.document.start, self.document.end, maintain_selection_offset=False)
        self.move_cursor(self.document.end)

    def give_back(self, draft: str) -> None:
        """Restore a draft before what was typed since."""
        self.draft = f"{draft}\n{self.draft}" if self.text.strip() else draft

    def load_text(self, text: str) -> None:
        super().load_text(self.pastes.fold(clean_paste(text)))

    def _on_paste(self, event: events.Paste) -> None:  # type: ignore[override]
        event.prevent_default()
        event.stop()
        self.history.checkpoint()
        if result := self._replace_via_keyboard(self.pastes.fold(clean_paste(event.text)), *self.selection):
            self.move_cursor(result.end_location)

    def action_expand(self) -> None:
        """Show pastes in full."""
        self.put(self.draft)

    def action_delete_left(self) -> None:
        row, column = self.cursor_location
        span = next((span for span in self.pastes.spans(self.document[row]) if span[1] == column), None)
        if span and self.selection.is_empty:
            self.history.checkpoint()
            self.delete((row, span[0]), (row, column), maintain_selection_offset=False)
        else:
            super().action_delete_left()

    def action_delete_to_start_of_line(self) -> None:
        row, column = self.selection.end
        if column and self.selection.is_empty:  # the whole line, as in a shell, not the wrapped row
            self._delete_via_keyboard((row, 0), (row, column))
        else:
            super().action_delete_to_start_of_line()

    def action_delete_to_end_of_line(self) -> None:
        row, column = self.selection.end
        self._delete_via_keyboard((row, column), (row, len(self.document[row])))

    def insert_apart(self, text: str) -> None:
        """Insert text at the cursor, separated by a space from a word before it."""
        row, column = self.cursor_location
        stands_at_word = column > 0 and not self.document[row][column - 1].isspace()
        self.insert(f"{' ' * stands_at_word}{text} ")

    def action_newline(self) -> None:
        self.insert("\n")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "expand" or any(mark in self.text for mark in self.pastes.texts)

    def on_text_area_changed(self) -> None:
        self.refresh_bindings()

    # The message

    @property
    def is_open(self) -> bool:
        """Whether a fence is open, so that enter adds a line."""
        text = self.text.strip()
        return text.startswith(FENCE) and not (text.endswith(FENCE) and len(text) >= 2 * len(FENCE))

    def message(self, text: str) -> str:
        """The message of a draft: without fences and escapes, with pastes unfolded."""
        if text.startswith(FENCE):
            text = text.removeprefix(FENCE).removesuffix(FENCE).removeprefix("\n").removesuffix("\n")
        else:
            text = text_of(text)
        return self.pastes.unfold(text)

    # Painting

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        spans = self.pastes.spans(line.plain)
        if self.known:
            spans += [(found.start, found.end) for found in mentions(line.plain, self.known.__contains__)]
        for start, end in spans:
            line.stylize(self.get_component_rich_style("box--token"), start, end)
        return line
