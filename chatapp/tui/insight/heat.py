"""Screen: an answer with its tokens coloured by probability, also while it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget

from chatapp.evaluation.measurements import UNLIKELY, measure_certainty
from chatapp.generation.delta import Token
from chatapp.tui.insight.panel import TokenPanel
from chatapp.tui.insight.shades import NAMES
from chatapp.tui.insight.text import HeatText, looks
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.widgets.textual_fixes import EndsOnce

PAUSE = 0.2
"""Seconds between updates of a growing answer."""


class HeatSummary(Widget):
    """How sure the model was of the whole answer, and a legend of the colours."""

    def __init__(self) -> None:
        super().__init__()
        self.told = Content()

    def summarise(self, tokens: Sequence[Token]) -> None:
        """Summarise these tokens."""
        before = len(self.lines(self.content_size.width))
        found = measure_certainty(tokens)
        if found:
            perplexity = f"{found.perplexity:.2f}" if found.perplexity < 1000 else "over 1,000"
            self.told = Content.assemble(
                (perplexity, "bold $text"), (" perplexity   ", "$muted"),
                (f"{found.unlikely * 100:.0f} %", "bold $text"), (f" below {UNLIKELY * 100:.0f} %   ", "$muted"),
                (f"{found.mean_logprob:.2f}", "bold $text"), (" mean log-probability", "$muted"),
            )  # fmt: skip
        else:
            self.told = Content.styled("no probabilities were saved with this answer" if tokens else "", "$muted")
        self.refresh(layout=len(self.lines(self.content_size.width)) != before)

    def render(self) -> Content:
        return Content("\n").join(self.lines(self.content_size.width))

    def lines(self, width: int) -> list[Content]:
        """Figures and legend, on one line if they fit."""
        legend = Content.assemble(*((f" {name} ", str(look)) for name, look in zip(NAMES, looks(self), strict=True)))
        room = width - self.told.cell_length - legend.cell_length
        if room >= 3:
            return [self.told + " " * room + legend]
        return [line.truncate(width, ellipsis=True) for line in (self.told, legend)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines(width))


class HeatScreen(EndsOnce, Screen[tuple[Token, ...] | None]):
    """The text, the token at the cursor, and a summary; dismisses with tokens that another version begins with."""

    CSS = """
    HeatScreen {
        HeatSummary {
            dock: top;
            height: auto;
            padding: 0 2;
            background: $panel;
        }
        HeatText {
            width: 1fr;
            height: 1fr;
            padding: 1 2 0 2;
            overflow-x: hidden;
            scrollbar-gutter: stable;
            scrollbar-size-vertical: 1;
        }
        TokenPanel {
            width: 38;
            height: 100%;
            padding: 1 2;
            background: $surface;
            &:focus {
                background: $panel;
            }
        }
        #heat {
            layout: horizontal;
            height: 1fr;
        }
        &.-narrow #heat {
            layout: vertical;
        }
        &.-narrow TokenPanel {
            width: 100%;
            height: 10;
            padding: 0 2;
        }
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (76, "-wide")]
    BINDINGS = [
        Binding("enter,tab", "alternatives", "Alternatives", key_display="↵", id="heat.alternatives"),
        *(
            Binding(str(place), f"choose({place - 1})", f"Continue with alternative {place}", show=False)
            for place in range(1, 6)
        ),
        Binding("t", "leave", "Text", id="heat.leave"),
        Binding("escape", "back", "Back", key_display="esc"),
        Binding("escape", "stop", "Stop", key_display="esc", id="heat.stop"),
    ]

    def __init__(
        self, tokens: Sequence[Token], growing: Callable[[], bool] = bool, stop: Callable[[], object] = bool
    ) -> None:
        """`tokens` may grow while `growing()` is true; `stop` ends that."""
        super().__init__()
        self.tokens, self.growing, self.stop = tokens, growing, stop
        self.heat, self.panel, self.summary = HeatText(), TokenPanel(), HeatSummary()

    def compose(self) -> ComposeResult:
        yield self.summary
        yield Container(self.heat, self.panel, id="heat")
        yield Keys()

    def on_mount(self) -> None:
        self.heat.focus()
        self.show(follow=self.growing())
        self.watch(self.heat, "cursor", self.point)
        self.pulse = self.set_interval(PAUSE, self.grow)

    def grow(self) -> None:
        """Show new tokens."""
        growing = self.growing()
        self.show(follow=True)
        if not growing:
            self.pulse.stop()
            self.refresh_bindings()

    def show(self, *, follow: bool) -> None:
        """Add new tokens; the cursor stays at the first one, or with `follow` goes to the last."""
        if more := self.tokens[len(self.heat.tokens) :]:
            self.heat.grow(more, follow=follow)
            self.summary.summarise(self.heat.tokens)
            self.point()

    def point(self) -> None:
        """Show the token at the cursor in the panel."""
        place, shown = self.heat.cursor, self.heat.tokens
        self.panel.show(shown[place] if shown else None, place + 1, len(shown))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "alternatives":
            return not self.panel.has_focus
        return self.growing() == (action == "stop") if action in ("back", "stop") else True

    def action_alternatives(self) -> None:
        self.panel.focus()

    def action_text(self) -> None:
        """Go back from the alternatives to the text."""
        self.heat.focus()

    def action_choose(self, place: int) -> None:
        """Dismiss with the tokens before the cursor, followed by one of its alternatives."""
        index, shown = self.heat.cursor, self.heat.tokens
        others = shown[index].alternatives if shown else ()
        if place < len(others):
            other = others[place]
            instead = replace(shown[index], id=other.id, text=other.text, logprob=other.logprob, seconds=0.0)
            self.dismiss((*shown[:index], instead))

    def action_leave(self) -> None:
        self.dismiss(None)

    action_back = action_leave

    def action_stop(self) -> None:
        self.stop()
