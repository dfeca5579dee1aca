"""Screen: how sure the model was of every token of an answer, also while it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from chatapp.generation.delta import Token
from chatapp.tui.insight.heat import HeatView
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.widgets.ends_once import EndsOnce

PAUSE = 0.2
"""Seconds between two looks at an answer that grows."""


class HeatScreen(EndsOnce, Screen[tuple[Token, ...] | None]):
    """Ends with the tokens that another answer is to begin with, where its user chose one."""

    BINDINGS = [Binding("escape", "stop", "Stop", key_display="esc", id="heat.stop")]

    def __init__(
        self, tokens: Callable[[], Sequence[Token]], growing: Callable[[], bool], stop: Callable[[], object]
    ) -> None:
        """`stop` ends what is growing."""
        super().__init__()
        self.tokens, self.growing, self.stop = tokens, growing, stop
        self.view = HeatView(tokens(), growing=growing())

    def compose(self) -> ComposeResult:
        yield self.view
        yield Keys()

    def on_mount(self) -> None:
        self.view.focus()
        if self.view.growing:
            self.pulse = self.set_interval(PAUSE, self.grow)

    def grow(self) -> None:
        """Show what the model has written meanwhile."""
        self.view.growing = self.growing()
        if more := self.tokens()[len(self.view.tokens) :]:
            self.view.grow(more)
        if not self.view.growing:
            self.pulse.stop()
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.view.growing if action == "stop" else True

    def action_stop(self) -> None:
        if self.growing():
            self.stop()

    def on_heat_view_closed(self) -> None:
        self.dismiss(None)

    def on_heat_view_chosen(self, message: HeatView.Chosen) -> None:
        self.dismiss(message.tokens)
