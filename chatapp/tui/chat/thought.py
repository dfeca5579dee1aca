"""Widget: what a model thought before it answered, folded to a line with its length and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual import events
from textual.content import Content
from textual.widgets import Static

from chatapp.generation.text.thinking import split
from chatapp.text.printable import printable
from chatapp.text.units import duration, milliseconds

if TYPE_CHECKING:
    from chatapp.generation import Delta


class Thought(Static):
    """A line that opens; nothing where the model did not think."""

    def __init__(self) -> None:
        super().__init__("", markup=False, classes="thought")
        self.thinking, self.tokens, self.seconds = "", 0, 0.0
        self.live = self.opened = False
        self.display = False

    def take(self, reply: str, usage: Mapping[str, Any]) -> None:  # Any: as stored
        """Show the thinking of a reply as it was kept, with its length and time where they are known."""
        self.live, self.thinking = False, split(reply).thinking
        tokens, seconds = usage.get("thinking_tokens"), usage.get("thinking_seconds")
        self.tokens = tokens if isinstance(tokens, int) else 0
        self.seconds = float(seconds) if isinstance(seconds, int | float) else 0.0
        self.show()

    def grow(self, reply: str, deltas: Sequence[Delta]) -> None:
        """Show that the model thinks: `reply` is all it said, these deltas the last of it."""
        self.live, self.thinking = True, split(reply).thinking
        for delta in deltas:
            self.tokens += len(delta.tokens)
            self.seconds += sum(token.seconds for token in delta.tokens)
        self.show()

    def show(self) -> None:
        """Paint it anew."""
        from chatapp.text.markdown import cut

        self.display = bool(self.thinking)
        time = duration(self.seconds) if self.seconds >= 1 else milliseconds(self.seconds)
        cost = [f"for {time}", f"{self.tokens:,} token{'s' * (self.tokens != 1)}"]
        about = f" {', '.join(cost)}" if self.tokens else ""
        line = f"{'thinking' if self.live else 'thought'}{about} {'▾' if self.opened else '▸'}"
        text = f"\n{printable(cut(self.thinking))}\n" if self.opened else ""
        self.update(Content.assemble((line, "$muted"), (text, "italic $muted")))

    def toggle(self) -> None:
        """Open it, or fold it again."""
        self.opened = not self.opened
        self.show()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.toggle()
