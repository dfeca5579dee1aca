"""An answer whose tokens are coloured by their probability, also while it is written: a widget, and its screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from chatapp.evaluation.measurements import UNLIKELY, measure_certainty
from chatapp.generation.delta import Token
from chatapp.tui.insight.panel import TokenPanel
from chatapp.tui.insight.shades import NAMES
from chatapp.tui.insight.text import HeatText, looks
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.widgets.textual_fixes import EndsOnce

NARROW = 76
"""Columns below which the panel is under the text."""
PAUSE = 0.2
"""Seconds between two looks at an answer that grows."""


class HeatSummary(Widget):
    """How sure the model was of the whole answer, and what the colours mean."""

    DEFAULT_CSS = """
    HeatSummary {
        dock: top;
        height: auto;
        padding: 0 2;
        background: $panel;
        color: $text;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.told = Content()

    def tell(self, tokens: Sequence[Token]) -> None:
        """Sum up these tokens."""
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
            self.told = Content.styled("no probabilities were kept for this answer" if tokens else "", "$muted")
        self.refresh(layout=len(self.lines(self.content_size.width)) != before)

    def render(self) -> Content:
        return Content("\n").join(self.lines(self.content_size.width))

    def lines(self, width: int) -> list[Content]:
        """The figures and the legend, in one line if they fit."""
        legend = Content.assemble(*((f" {name} ", look) for name, look in self.legend()))
        room = width - self.told.cell_length - legend.cell_length
        if room >= 3:
            return [self.told + " " * room + legend]
        return [line.truncate(width, ellipsis=True) for line in (self.told, legend)]

    def legend(self) -> Iterable[tuple[str, str]]:
        """The names of the steps, each in its own look."""
        for name, look in zip(NAMES, looks(self), strict=True):
            yield name, str(look)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines(width))


class HeatView(Widget):
    """The heat of an answer: its text, the cursor's token beside it, and a summary above."""

    DEFAULT_CSS = """
    HeatView {
        layout: horizontal;
        width: 100%;
        height: 1fr;

        &.-narrow {
            layout: vertical;
        }
        &.-narrow TokenPanel {
            width: 100%;
            height: 10;
            padding: 0 2;
        }
    }
    """
    BINDINGS = [
        Binding("enter,tab", "alternatives", "Alternatives", key_display="↵", id="heat.alternatives"),
        *(
            Binding(str(place), f"choose({place - 1})", f"Continue with alternative {place}", show=False)
            for place in range(1, 6)
        ),
        Binding("t", "leave", "Text", id="heat.leave"),
        Binding("escape", "back", "Back", key_display="esc"),
    ]

    @dataclass
    class Chosen(Message):
        """The answer should go on from a token of it, with an alternative in that one's place."""

        tokens: tuple[Token, ...]
        """What the new answer begins with: the tokens before, and the alternative."""

    class Closed(Message):
        """Its user wants to read the answer as text again."""

    def __init__(self, tokens: Sequence[Token] = (), *, growing: bool = False) -> None:
        super().__init__()
        self.growing = growing
        """Whether more tokens come; Escape is then left to whoever stops the model."""
        self.heat, self.panel, self.summary = HeatText(), TokenPanel(), HeatSummary()
        self.first = tokens

    def compose(self) -> ComposeResult:
        yield self.summary
        yield self.heat
        yield self.panel

    def on_mount(self) -> None:
        self.show(self.first)

    def focus(self, scroll_visible: bool = True) -> Self:
        """The text has the keys."""
        self.heat.focus(scroll_visible)
        return self

    @property
    def tokens(self) -> Sequence[Token]:
        """All tokens shown."""
        return self.heat.tokens

    def grow(self, tokens: Sequence[Token]) -> None:
        """Add tokens that the model has written meanwhile."""
        self.heat.grow(tokens)
        self.tell()

    def show(self, tokens: Sequence[Token]) -> None:
        """Show another answer: from its beginning, or where it grows."""
        self.heat.clear()
        self.heat.grow(tokens, follow=self.growing)
        self.heat.reveal()
        self.tell()

    def tell(self) -> None:
        """Bring the panel and the summary up to date."""
        self.summary.tell(self.tokens)
        self.point()

    def point(self) -> None:
        """Show the cursor's token in the panel."""
        place = self.heat.cursor
        self.panel.show(self.tokens[place] if self.tokens else None, place + 1, len(self.tokens))

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < NARROW, "-narrow")

    @on(HeatText.Moved)
    def follow_the_cursor(self, message: HeatText.Moved) -> None:
        message.stop()
        self.point()

    @on(TokenPanel.Left)
    def go_back_to_the_text(self, message: TokenPanel.Left) -> None:
        message.stop()
        self.heat.focus()

    @on(TokenPanel.Chosen)
    def take_the_alternative(self, message: TokenPanel.Chosen) -> None:
        message.stop()
        self.action_choose(message.place)

    def action_alternatives(self) -> None:
        self.panel.focus()

    def action_choose(self, place: int) -> None:
        index = self.heat.cursor
        others = self.tokens[index].alternatives if self.tokens else ()
        if place < len(others):
            other = others[place]
            instead = replace(self.tokens[index], id=other.id, text=other.text, logprob=other.logprob, seconds=0.0)
            self.post_message(self.Chosen((*self.tokens[:index], instead)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "alternatives":
            return not self.panel.has_focus
        return not (action == "back" and self.growing)

    def action_leave(self) -> None:
        self.post_message(self.Closed())

    action_back = action_leave


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
