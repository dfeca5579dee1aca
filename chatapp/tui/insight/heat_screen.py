"""Screen: how sure the model was of every token of an answer, also while it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.screen import Screen

from chatapp.generation.delta import Token
from chatapp.tui.insight.heat import HeatView
from chatapp.tui.keys import Keys

PAUSE = 0.2
"""Seconds between two looks at an answer that grows."""


class HeatScreen(Screen[tuple[Token, ...] | None]):
    """Ends with the tokens that another answer is to begin with, where its user chose one."""

    def __init__(self, tokens: Callable[[], Sequence[Token]], growing: Callable[[], bool]) -> None:
        super().__init__()
        self.tokens, self.growing = tokens, growing
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

    def on_heat_view_closed(self) -> None:
        self.dismiss(None)

    def on_heat_view_chosen(self, message: HeatView.Chosen) -> None:
        self.dismiss(message.tokens)
