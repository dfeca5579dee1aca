"""Widgets: the heading of a conversation, the status line with a reply's figures, and the welcome text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from chatapp.text.printable import printable
from chatapp.text.units import milliseconds, rate, round_up

if TYPE_CHECKING:
    from chatapp.generation import Delta, Guesses, Usage
    from chatapp.workspace import Opened

BARS = "▁▂▃▄▅▆▇█"


@dataclass
class Figures:
    """Measurements of a reply, in seconds and bytes."""

    prompt_tokens: int = 0
    tokens: int = 0
    reading: tuple[int, int] | None = None
    """Tokens read and total tokens of a long prompt, while it is being read."""
    doing: Literal["reading", "searching", "thinking", "writing"] = "writing"
    prefill: float = 0.0
    time_to_first_token: float | None = None
    latencies: list[float] = field(default_factory=list)
    """Of every token except the first of each answer."""
    spent: dict[int, float] = field(default_factory=dict)
    """By answer: decoding time after its first token; several answers decode at the same time."""
    guesses: Guesses | None = None
    """Statistics of speculative decoding, if used."""
    usage: Usage | None = None
    """The engine's summary, once the reply has ended by itself."""

    def add(self, deltas: Iterable[Delta]) -> None:
        """Add deltas."""
        for delta in deltas:
            timings, self.reading = delta.timings, delta.reading
            self.guesses = delta.guesses or self.guesses
            searching: Literal["searching", "writing"] = "searching" if delta.beams else "writing"
            self.doing = "reading" if delta.reading else "thinking" if delta.channel == "thinking" else searching
            if self.tokens == 0:
                spent = timings.prefill + timings.decode + timings.sampling + timings.detokenising
                self.time_to_first_token = (self.time_to_first_token or 0.0) + spent
            self.prefill += timings.prefill
            for token in delta.tokens:
                if delta.index in self.spent:
                    self.latencies.append(token.seconds)
                    self.spent[delta.index] += token.seconds
                else:
                    self.spent[delta.index] = 0.0
            self.tokens += len(delta.tokens)
            if delta.usage:
                self.settle(delta.usage)

    def settle(self, usage: Usage) -> None:
        """Replace our own sums by the engine's summary."""
        self.usage = usage
        self.prompt_tokens = usage.prompt_tokens
        self.tokens = usage.completion_tokens
        self.prefill = usage.prefill_seconds
        self.time_to_first_token = usage.time_to_first_token

    @property
    def tokens_per_second(self) -> float | None:
        if self.usage:
            return self.usage.tokens_per_second
        spent = max(self.spent.values(), default=0.0)
        return len(self.latencies) / spent if spent else None

    @property
    def p95(self) -> float | None:
        return percentile(self.latencies, 95) if self.latencies else None

    @property
    def slow(self) -> float:
        """The latency from which a token counts as slow: twice the median."""
        return 2 * percentile(self.latencies, 50)


def percentile(values: Sequence[float], percent: float) -> float:
    """The engine's `percentile`, imported late to speed up the first frame."""
    from chatapp.generation.delta import percentile

    return percentile(values, percent)


def strip(latencies: Sequence[float], top: float) -> str:
    """One block character per token, full height at `top` seconds."""
    return "".join(BARS[min(7, int(8 * seconds / top))] for seconds in latencies)


class Heading(Widget):
    """The model, the mode, and how full the context is."""

    model = reactive("")
    about = reactive("")
    mode = reactive("")
    vim = reactive("")
    """The mode of vim keys, if they are on."""
    used = reactive(0)
    total = reactive(0)
    left_out = reactive(0)
    """Messages that did not fit the context."""
    held = 0
    """Tokens of the conversation without the message being typed."""

    def show_model(self, opened: Opened) -> None:
        """Show an opened model."""
        self.model, self.about = opened.name, opened.about
        self.total, self.left_out = opened.context_length, 0

    def hold(self, tokens: int, left_out: int = 0) -> None:
        """Show how many tokens the conversation takes (0: unknown) and how many messages were left out."""
        self.left_out = left_out
        if tokens:
            self.held = self.used = min(tokens, self.total or tokens)

    def validate_model(self, model: str) -> str:
        return printable(model)

    def render(self) -> Content:
        lost = f"  the oldest {self.left_out} left out" if self.left_out else ""
        left = Content.assemble((f" {self.model}", "bold $accent"), (lost, "$warning"), (f"  {self.about}", "$muted"))
        vim = (f" {self.vim} ", "bold $background on $accent") if self.vim else ""
        mode = Content.assemble("  ", (f" {self.mode} ", "$text on $surface"), vim)
        right = self.meter()
        room = self.size.width - mode.cell_length - right.cell_length - 1
        left = left.truncate(max(0, room), ellipsis=True)
        return left + mode + Content(" " * (room - left.cell_length)) + right

    def meter(self) -> Content:
        """The context as a bar and as numbers."""
        if not self.total:
            return Content()
        share = min(1.0, self.used / self.total)
        colour = "$error" if share > 0.95 else "$warning" if share > 0.8 else "$accent"
        width = 16 if self.size.width >= 100 else 8
        filled = max(round(share * width), 1 if self.used else 0)
        return Content.assemble(
            ("context ", "$muted"),
            ("━" * filled, colour),
            ("━" * (width - filled), "$muted 40%"),
            (f" {min(self.used, self.total):,} / {self.total:,}", "$text"),
            (f" +{self.used - self.total:,}" if self.used > self.total else "", "bold $error"),
        )


class StatusLine(Widget):
    """What the model is doing; from the first token on also speed, place, and a strip of latencies."""

    state = reactive("")
    tone = reactive("muted")
    """The theme colour of the state."""
    hint = reactive("")
    """Shown after the state while there are no figures."""
    reason = reactive("")
    """Why there is no model or answer; shown in the second line."""
    figures: reactive[Figures | None] = reactive(None, always_update=True)
    memory = reactive(0)
    place = reactive("")
    """Backend, device and precision."""
    tools = reactive("")
    """The tool servers in use, and where text goes with them."""

    def validate_hint(self, hint: str) -> str:
        return printable(hint)

    validate_place = validate_tools = validate_reason = validate_hint

    def show(
        self, state: str, *, tone: str = "muted", hint: str = "", reason: str = "", figures: Figures | None = None
    ) -> None:
        """Show a state; a `reason` or figures add the second line."""
        self.state, self.tone, self.hint, self.reason, self.figures = state, tone, hint, reason, figures
        if reason or (figures and figures.tokens):
            self.add_class("-told")

    def show_model(self, place: str, memory: int, hint: str) -> None:
        """Show that a model is ready, and where it runs."""
        self.place, self.memory = place, memory
        self.show("● ready", tone="success", hint=hint)

    def show_lack(self, reason: str) -> None:
        """Show that there is no model, and why."""
        self.place, self.memory = "", 0
        hint = "what you typed stays here; ^O chooses another model"
        self.show("✗ no model", tone="error", hint=hint, reason=" ".join(reason.split()))

    def render(self) -> Content:
        state = Content.assemble((f" {self.state}", f"bold ${self.tone}"))
        room = self.size.width - state.cell_length
        if self.figures and self.figures.tokens:
            rest = self.speed(room)
        else:
            reading = self.figures and self.figures.reading
            hint = f"{reading[0]:,} of {reading[1]:,} tokens" if reading else self.hint
            rest = Content.assemble((f"   {hint}", "$muted")).truncate(room, ellipsis=True)
        first = state + rest
        return Content("\n").join([first, self.latencies()]) if self.has_class("-told") else first

    def speed(self, room: int) -> Content:
        """The figures of the reply, most important first, as many as fit into `room` cells."""
        figures = self.figures
        assert figures
        p95 = figures.p95
        pairs = [
            (rate(figures.tokens_per_second), "tok/s"),
            ("first token", milliseconds(figures.time_to_first_token or 0.0)),
            ("prefill", milliseconds(figures.prefill)),
            ("p95", milliseconds(p95) if p95 else "–"),
            (f"{figures.tokens:,}", "token" if figures.tokens == 1 else "tokens"),
        ]
        if guesses := figures.guesses:
            pairs.append((f"{guesses.accepted:,}/{guesses.drafted:,}", "guessed"))
            if guesses.gain:
                pairs.append((f"{guesses.gain:.1f}×", "plain steps"))
        if figures.usage and figures.usage.cached_tokens:
            pairs.append((f"{figures.usage.cached_tokens:,}", "cached"))
        line = Content()
        for first, second in pairs:
            longer = line + self.pair(first, second)
            if longer.cell_length > room:
                break
            line = longer
        return line

    def pair(self, first: str, second: str) -> Content:
        """A number and its label, in either order; the number stands out."""
        gap = "   " if self.size.width >= 100 else "  "
        styles = ("$text", "$muted") if first[0].isdigit() or first == "–" else ("$muted", "$text")
        return Content.assemble(gap, (first, styles[0]), " ", (second, styles[1]))

    def latencies(self) -> Content:
        """The second line: latencies, their scale, memory and place."""
        memory = self.pair("memory", f"{self.memory / 1e6:,.0f} MB") if self.memory else Content()
        right = memory + Content.assemble((f"   {self.place}{self.tools} ", "$muted"))
        if not self.figures or not self.figures.latencies:
            left = Content.assemble((f" {self.reason}", "$muted")).truncate(self.size.width, ellipsis=True)
            if self.reason and left.cell_length + right.cell_length > self.size.width:
                return left  # no room for both: the reason is more important
            return left + Content(" " * max(0, self.size.width - left.cell_length - right.cell_length)) + right
        top, slow = round_up(max(self.figures.latencies)), self.figures.slow
        scale = Content.assemble((f" 0–{top * 1000:g} ms", "$muted"))
        room = max(1, self.size.width - right.cell_length - scale.cell_length - 1)
        shown = self.figures.latencies[-room:]
        bars = [
            (strip(list(run), top), "$warning" if late else "$accent")
            for late, run in groupby(shown, lambda seconds: seconds > slow)
        ]
        return Content.assemble(" ", *bars, " " * (room - len(shown))) + scale + right


KEYS = {
    "completion": (("ctrl+j", "continue this example, or your text"), ("esc", "stop")),
    "chat": (("enter", "send"), ("ctrl+j", "new line"), ("esc", "stop")),
}
PROMISE = {"completion": "continues your text", "chat": "answers your messages"}


class Welcome(Static):
    """What the model does, the first keys, and whether text leaves this machine."""

    tools_leave = ""
    """The machines that tool calls send text to."""

    def fit(self, page: Size) -> None:
        """Limit its size so that it covers neither the status line nor the edge."""
        self.styles.max_width, self.styles.max_height = max(1, page.width - 6), max(1, page.height - 6)

    def show(self, mode: str, heading: Heading, opened: Opened | None, *, gaps: bool) -> None:
        """Fill in what is known about the model."""
        model, about = heading.model, heading.about
        leaves = ", ".join(filter(None, [opened.leaves if opened else "", self.tools_leave]))
        stays = f"Text goes to {printable(leaves)}." if leaves else "Everything stays on this machine."
        size = f" ({about})" if about else ""
        keys = Content.assemble(
            *(part for key, does in KEYS[mode] for part in ((f"{key:<8}", "$accent"), (f"{does}\n", "$muted")))
        )
        more = ", and fills the gap\nat the cursor (ctrl+f shows how)" if gaps and mode == "completion" else ""
        limits = "\nA small model: Python and JavaScript." if model == "builtin" else ""
        size = "" if limits else size
        promise = f"{size} {PROMISE[mode]}{more}.{limits}\n{stays}"
        self.update(keys + Content.assemble("\n", (model, "bold"), promise))
