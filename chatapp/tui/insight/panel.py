"""Widget: one token of an answer, and its alternatives."""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from chatapp.evaluation.measurements import find_probability
from chatapp.generation.delta import Token
from chatapp.text.units import bar, milliseconds
from chatapp.tui.insight.wrapping import label

BEFORE = 4
"""Lines above the first alternative."""


class TokenPanel(Widget, can_focus=True):
    """Probability and latency of a token, and its alternatives, one of which can be chosen."""

    BINDINGS = [
        Binding("up", "walk(-1)", "Alternative above", show=False),
        Binding("down", "walk(1)", "Alternative below", show=False),
        Binding("enter", "choose", "Continue with it", key_display="↵"),
        Binding("escape,left,shift+tab", "screen.text", "Back to the text", key_display="esc"),
    ]
    token: reactive[Token | None] = reactive(None)
    number = reactive(0)
    """The token's position in the answer, from 1."""
    total = reactive(0)
    marked = reactive(0)
    """The index of the alternative that Enter takes."""

    def show(self, token: Token | None, number: int, total: int) -> None:
        """Show another token."""
        if (token, number) != (self.token, self.number):
            others = token.alternatives if token else ()
            self.marked = next((place for place, other in enumerate(others) if token and other.id != token.id), 0)
        self.token, self.number, self.total = token, number, total

    def render(self) -> Content:
        token = self.token
        if not token:
            return Content.styled("no tokens yet", "$muted")
        return Content("\n").join([*self.facts(token), Content(), *self.alternatives(token)])

    def facts(self, token: Token) -> list[Content]:
        """What is known about the token."""
        width = self.content_size.width
        place = Content.styled(f"{self.number:,} of {self.total:,}", "$muted")
        name = Content.styled(label(named(token)), "bold $accent").truncate(
            width - place.cell_length - 1, ellipsis=True
        )
        head = name + " " * (width - name.cell_length - place.cell_length) + place
        after = ", guessed" if token.guessed else " after the one before"
        latency = Content.assemble((milliseconds(token.seconds), "$text"), (after, "$muted"))
        if token.logprob is None:
            return [head, Content.styled("no probability was saved", "$muted"), latency]
        sure = Content.assemble(
            (percent(token.logprob), "bold $text"), ("  log-probability ", "$muted"), (f"{token.logprob:.2f}", "$text")
        )
        return [head, sure, latency]

    def alternatives(self, token: Token) -> list[Content]:
        """The alternatives with bars; the one that was written is ticked."""
        if not token.alternatives:
            return [Content.styled("no alternatives were saved", "$muted")]
        width = self.content_size.width
        names = max(6, min(14, width // 3))
        room = max(4, width - names - 14)
        lines = []
        for place, other in enumerate(token.alternatives):
            written = other.id == token.id
            colour = "$success" if written else "$accent"
            marked = self.has_focus and place == self.marked
            name = Content(label(other.text)).truncate(names, ellipsis=True)
            line = Content.assemble(
                ("▸" if marked else " ", "bold $accent"),
                (f"{place + 1} ", "$muted"),
                name.stylize("bold $text" if marked else "$text"),
                " " * (names - name.cell_length + 1),
                (bar(find_probability(other.logprob), room).ljust(room), colour),
                (f" {percent(other.logprob):>7}", "$text"),
                (" ✓" if written else "", "$success"),
            )
            lines.append(line.stylize("on $selection") if marked else line)
        rest = 1 - sum(find_probability(other.logprob) for other in token.alternatives)
        lines.append(Content.styled(f"   {'all others':{names + 1}}{' ' * room} {share_of(rest):>7}", "$muted"))
        hint = f"continue from here with 1–{len(token.alternatives)}"
        return [*lines, Content(), Content.styled(hint, "$muted").truncate(width, ellipsis=True)]

    async def on_click(self, event: events.Click) -> None:
        place = event.y - self.gutter.top - BEFORE
        if self.token and 0 <= place < len(self.token.alternatives):
            await self.run_action(f"screen.choose({place})")

    def action_walk(self, by: int) -> None:
        if self.token and self.token.alternatives:
            self.marked = (self.marked + by) % len(self.token.alternatives)

    async def action_choose(self) -> None:
        await self.run_action(f"screen.choose({self.marked})")


def named(token: Token) -> str:
    """A token's text; if that is empty, its name among the alternatives."""
    return token.text or next((other.text for other in token.alternatives if other.id == token.id), "")


def percent(logprob: float) -> str:
    """A log-probability as a percentage."""
    return share_of(find_probability(logprob))


def share_of(share: float) -> str:
    """A share as a percentage, however small."""
    return f"{share * 100:.1f} %" if share >= 0.0995 else f"{share * 100:.2f} %" if share >= 0.0001 else "< .01 %"
