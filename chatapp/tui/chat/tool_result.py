"""Widget: a tool call and its result, in a line that unfolds."""

from __future__ import annotations

import json

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from chatapp.text.printable import printable
from chatapp.text.units import milliseconds
from chatapp.tui.chat.message import Said

TONES = {"done": "$muted", "failed": "$error", "refused": "$warning"}
SHOWN = 60
"""Characters of the arguments in the line."""


class ToolResult(Said):
    """A tool call and its result."""

    folded = True
    opened = False

    def compose(self) -> ComposeResult:
        self.body = Static(self.content(), markup=False, classes="body")
        yield self.body
        yield self.foot

    def content(self) -> Content:
        """The line, and call and result if unfolded."""
        from chatapp.text.markdown import cut

        usage, call = self.said.usage, next(iter(self.said.calls), None)
        outcome, seconds = str(usage.get("outcome", "")), usage.get("seconds")
        lines = self.said.text.count("\n") + 1
        arguments = " ".join(call.arguments.split()) if call else ""
        short = arguments if len(arguments) <= SHOWN else f"{arguments[:SHOWN]}…"
        parts = (
            f"{call.name if call else 'a tool'} {short}",
            str(usage.get("server", "")),
            "" if outcome == "done" else outcome,
            milliseconds(seconds) if isinstance(seconds, int | float) else "",
            f"{lines:,} line{'s' * (lines != 1)}" if outcome == "done" else "",
        )
        head = f"{'▾' if self.opened else '▸'} {printable(' · '.join(part for part in parts if part))}"
        told = Content.styled(head, f"not bold {TONES.get(outcome, '$muted')}")
        if not self.opened:
            return told
        asked = json.dumps(json.loads(call.arguments), indent=2, ensure_ascii=False) if call else ""
        return (
            told
            + Content.styled(f"\n{printable(cut(asked))}", "$muted")
            + Content(f"\n{printable(cut(self.said.text))}")
        )

    def action_open(self) -> None:
        """Fold or unfold it."""
        self.opened = not self.opened
        self.body.update(self.content())

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.action_open()
