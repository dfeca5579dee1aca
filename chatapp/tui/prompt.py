"""Widget: the box where messages are typed."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.widgets import TextArea


class Prompt(TextArea):
    """A message in the making: enter sends it, ctrl+j adds a line."""

    BINDINGS = [
        Binding("enter", "submit", "Send"),
        Binding("ctrl+j,shift+enter", "newline", "New line", key_display="^J"),
    ]

    class Submitted(Message):
        """The message is complete."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, placeholder="Ask the model on this machine")
        self.cursor_blink = False

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]  # TextArea's runs after it, by itself
        # Here and not in a priority binding, which would overtake the characters typed just before it.
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.action_submit()

    def action_submit(self) -> None:
        if self.text.strip():
            self.post_message(self.Submitted(self.text))

    def action_newline(self) -> None:
        self.insert("\n")
