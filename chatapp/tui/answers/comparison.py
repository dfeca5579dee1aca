"""Screen: the same prompt to two or more models or backends, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static, TextArea

from backends import NAMES, get
from chatapp.evaluation import compare
from chatapp.generation import Delta, Engine
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds
from chatapp.tui.answers.column import Column
from chatapp.tui.answers.columns import Columns
from chatapp.tui.answers.picker import OneOf, Picker
from chatapp.tui.engines import Choice
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.opening import Front, Opening
from chatapp.tui.threads import SOONEST, Drain, Pace
from chatapp.tui.widgets.textual_fixes import EndsOnce
from chatapp.workspace import Opened

Progress = Callable[[str, float], None]
Warn = Callable[[str], object]
OpenModel = Callable[[Choice, Progress, Warn], Opened]
"""Opens a model on a backend, or the best one; takes callbacks for progress and for fallbacks."""

ORDERS = {"one after the other": compare.answer_one_by_one, "in turn": compare.answer_in_turn}
TOKENS = ("32", "64", "128", "256", "512")


class Asked(TextArea):
    """The prompt field: enter moves on, ctrl+j adds a line."""

    BINDINGS = [Binding("ctrl+j,shift+enter", "newline", "New line", key_display="^J")]

    def __init__(self, text: str) -> None:
        super().__init__(text, compact=True, highlight_cursor_line=False, placeholder="The prompt for all of them")
        self.cursor_blink = False
        self.move_cursor(self.document.end)

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]  # TextArea's runs after it, by itself
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.screen.focus_next()
        elif event.key == "escape":  # TextArea would move the focus on escape
            event.prevent_default()

    def action_newline(self) -> None:
        self.insert("\n")


class ComparisonScreen(EndsOnce, Screen[str | None]):
    """A form to choose the models, then their answers; dismisses with the text of a chosen answer."""

    CSS_PATH = "comparison.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "start", "Compare", key_display="F5", id="comparison.start"),
        Binding("escape", "leave", "Back", key_display="esc", id="comparison.leave"),
    ]

    def __init__(
        self,
        models: Sequence[str],
        backends: Sequence[str],
        open_model: OpenModel,
        *,
        prompt: str = "",
        system: str = "",
        chosen: Sequence[Choice] = (),
    ) -> None:
        super().__init__()
        choices = [Choice(model, backend) for model in models for backend in ("", *backends)]
        self.choices = {str(choice): choice for choice in choices}
        self.open_model, self.system = open_model, system
        self.asked = Asked(prompt)
        self.picker = Picker(list(self.choices), [str(choice) for choice in chosen])
        self.order = OneOf("Order", tuple(ORDERS), "one after the other")
        self.tokens = OneOf("Tokens at most", TOKENS, "128")
        self.running: Drain[compare.Event] | None = None
        self.columns: Columns | None = None
        self.taking_part: list[Choice] = []
        self.results: list[compare.Result] = []
        self.pulse: Timer | None = None
        self.pace = Pace()

    @classmethod
    def over(cls, front: Front) -> Opening:
        """Compare models, or backends of one model, on the typed or last prompt."""
        workspace = front.workspace

        def open_model(choice: Choice, on_progress: Progress, warn: Warn) -> Opened:
            placement = workspace.choose_placement(choice.backend)
            return workspace.open_model(choice.model, placement, on_progress=on_progress, on_fallback=warn)

        def take(kept: str | None) -> None:
            if kept:
                front.copy(lambda: kept)

        names = [model.name for model in workspace.open_store().list()] + workspace.list_remote_models()
        places = [name for name in NAMES if get(name).devices()]
        system, chosen = front.dialogue.setup.system, [Choice(front.model)]
        return cls(names, places, open_model, prompt=front.typed(), system=system, chosen=chosen), take

    def compose(self) -> ComposeResult:
        given = "the same prompt and system prompt" if self.system else "the same prompt"
        about = Content.assemble((" Compare", "bold $accent"), (f"  {given}, answered greedily", "$muted"))
        yield Static(about, classes="bar")
        with VerticalScroll(classes="form", can_focus=False):
            yield Static("Prompt", classes="label")
            yield self.asked
            yield Static("Models, and the backends they run on", classes="label below")
            yield self.picker
            with Horizontal(classes="choices"):
                yield self.tokens
                yield self.order
        self.table = Static("", classes="report table", markup=False)
        self.verdict = Static("", classes="report", markup=False)
        yield self.table
        yield self.verdict
        yield Keys()

    def on_mount(self) -> None:
        (self.picker if self.asked.text else self.asked).focus()

    # The form

    async def action_start(self) -> None:
        """Start the comparison, if a prompt and two models are given."""
        text = self.asked.text
        if not text.strip():
            self.notify("Write a prompt first.", severity="warning")
            self.asked.focus()
        elif len(self.picker.chosen) < 2:
            self.notify("Choose two or more with space.", severity="warning")
            self.picker.focus()
        else:
            await self.show_form()
            await self.begin(compare.Question(text, self.system, int(self.tokens.value)))

    async def begin(self, question: compare.Question) -> None:
        """Show a column for each model and start the thread."""
        self.taking_part = [self.choices[name] for name in self.picker.chosen]
        self.results = []
        caption = f"at most {question.max_tokens} tokens, {self.order.value}"
        if self.order.value == "in turn":
            caption += ": for reading along; speeds are measured one after the other"
        else:
            caption += "; ★ the likeliest, by mean log-prob"
        self.columns = Columns(len(self.taking_part), self.picker.chosen, caption=caption)
        self.table.display = self.verdict.display = False
        self.add_class("-results")
        await self.mount(self.columns, before=self.table)
        self.columns.focus()
        runners = [
            compare.Runner(str(choice), choice.model, partial(self.open, choice, self.columns.columns[index]))
            for index, choice in enumerate(self.taking_part)
        ]
        answers = ORDERS[self.order.value](runners, question)
        # It starts when the previous comparison's thread has released its engine.
        self.running = Drain(answers, lambda _: self.call_later(self.flush), name="comparison", after=self.running)
        self.running.start()
        self.refresh_bindings()
        self.pace = Pace()
        self.pulse = self.set_timer(SOONEST, self.flush)

    def open(self, choice: Choice, column: Column) -> Engine:
        """Open one of the models; runs in the thread."""

        def report(step: str, share: float) -> None:
            self.call_later(self.show_progress, column, step, share)

        return self.open_model(choice, report, partial(self.call_later, self.warn)).engine

    def show_progress(self, column: Column, step: str, share: float) -> None:
        """Show the progress of opening a model."""
        column.say(f"○ {share:.0%}")
        column.note(muted(printable(step)))

    def warn(self, reason: str) -> None:
        """A backend has failed and another takes over."""
        self.notify(f"{printable(reason)}.", severity="warning", markup=False)

    # The answers

    @property
    def answering(self) -> bool:
        """Whether a model is still answering."""
        return self.pulse is not None

    def flush(self) -> None:
        """Show what arrived since the last time, and schedule the next update."""
        if not (self.running and self.columns and self.pulse):
            return
        self.pulse.stop()
        over = self.running.is_over
        written: dict[int, list[Delta]] = {}
        for event in self.running.take():
            if isinstance(event, compare.Wrote):
                written.setdefault(event.index, []).append(event.delta)
            else:
                self.show_written(self.columns, written)
                written = {}
                self.show(self.columns, event)
        self.show_written(self.columns, written)
        if over:
            self.end(self.columns)
        else:
            self.pulse = self.set_timer(self.pace.pause(), self.flush)

    def show_written(self, columns: Columns, written: dict[int, list[Delta]]) -> None:
        """Add deltas to their columns."""
        for index, deltas in written.items():
            text = "".join(delta.text for delta in deltas if delta.channel == "text")
            tokens = [token for delta in deltas for token in delta.tokens]
            if text or tokens:
                columns.grow(index, text, tokens)
                self.show_latencies(columns, index)

    def show_latencies(self, columns: Columns, index: int) -> None:
        """Show the time to the first token and the 95th percentile of latency."""
        column = columns.columns[index]
        first, p95 = column.reply.time_to_first_token or 0.0, column.reply.percentile(95)
        parts = [("first ", "$muted"), (milliseconds(first), "$text")]
        if p95:
            parts += [(" p95 ", "$muted"), (milliseconds(p95), "$text")]
        column.note(Content.assemble(*parts), *column.notes[1:])

    def show(self, columns: Columns, event: compare.Event) -> None:
        """Show an event other than text."""
        match event:
            case compare.Opened(index, placement):
                columns.columns[index].say("● reading", "accent")
                columns.columns[index].note(Content(), muted(placement))
            case compare.Ended(index, result):
                self.results.append(result)
                columns.columns[index].note(columns.columns[index].notes[0], muted(result.placement))
                columns.finish(index, result.reply.finish_reason)
            case compare.Failed(index, error):
                columns.fail(index, error)

    def end(self, columns: Columns) -> None:
        """All answers have ended or were stopped: show the table of results."""
        self.pulse = None
        columns.finish_all("cancelled")
        if self.results:
            heads, rows = printable(compare.format_figures(self.results)).split("\n", 1)
            said = printable("\n".join(compare.describe_outcome(self.results)))
            self.table.update(Content.assemble((f"{heads}\n", "$muted"), rows))
            self.verdict.update(Content.assemble((said, "bold")))
            self.table.display = True
            self.verdict.display = bool(said)
        self.refresh_bindings()

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.answering if action == "start" else True

    @on(Columns.Kept)
    def keep(self, message: Columns.Kept) -> None:
        assert self.columns
        if text := self.columns.columns[message.index].reply.text:
            self.dismiss(text)
        else:
            self.refuse(self.taking_part[message.index])

    @on(Columns.HeatWanted)
    def show_heat(self, message: Columns.HeatWanted) -> None:
        """Show the token probabilities of an answer."""
        from chatapp.tui.insight.heat import HeatScreen

        assert self.columns
        column = self.columns.columns[message.index]
        if column.reply.tokens:
            self.app.push_screen(HeatScreen(column.reply.tokens, lambda: not column.ended, self.stop))
        else:
            self.refuse(self.taking_part[message.index])

    def refuse(self, choice: Choice) -> None:
        """Say that there is no answer yet."""
        self.notify(f"{printable(str(choice))} has written nothing yet.", severity="warning", markup=False)

    @on(Columns.Left)
    async def action_leave(self) -> None:
        """Stop the models, or go back to the form, or leave."""
        if self.answering:
            self.stop()
        elif self.columns:
            await self.show_form()
        else:
            self.dismiss(None)

    def stop(self) -> None:
        """Stop the models."""
        if self.running:
            self.running.stop()
            self.flush()

    async def show_form(self) -> None:
        """Show the form again."""
        if self.columns:
            await self.columns.remove()
            self.columns = None
        self.table.display = self.verdict.display = False
        self.remove_class("-results")
        self.picker.focus()

    def on_unmount(self) -> None:
        if self.running:
            self.running.stop()


def muted(text: str) -> Content:
    """A line in the muted colour."""
    return Content.assemble((text, "$muted"))
