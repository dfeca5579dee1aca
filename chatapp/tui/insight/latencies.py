"""Screen: the latency of each token of an answer, and its other measurements."""

from __future__ import annotations

from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from chatapp.evaluation.measurements import Answer, Form, propose_path, save
from chatapp.text.errors import InputError
from chatapp.text.files import expand
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds, size
from chatapp.tui.insight.chart import LatencyChart, LatencyHistogram
from chatapp.tui.insight.table import MISSING, TokenTable
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.widgets.textual_fixes import EndsOnce
from chatapp.tui.widgets.windows import AskLine


def seconds(value: float | None) -> str:
    return MISSING if value is None else milliseconds(value)


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return MISSING
    return f"{value:,.{0 if value >= 100 or isinstance(value, int) else 1}f}{unit}"


def groups(answer: Answer) -> dict[str, list[tuple[str, str]]]:
    """The figures by topic, most important first."""
    total = answer.steps[-1].elapsed if answer.steps else None
    own = len(answer.steps) - answer.begun or None
    told = answer.completion_tokens
    written = number(own if own or told is None else told)
    if own and told and told > own:
        written += f" of {told:,}"  # the others belong to other answers to the same question
    if answer.begun:
        written += f" ({answer.begun:,} chosen by you)"
    load = seconds(answer.load_seconds)
    if answer.lowering_seconds:
        load += f", lowering {milliseconds(answer.lowering_seconds)}"
    return {
        "latency": [
            *((f"p{percent}", seconds(answer.percentile(percent))) for percent in (50, 95, 99)),
            ("first", seconds(answer.latencies[0] if answer.latencies else None)),
            ("last", seconds(answer.latencies[-1] if answer.latencies else None)),
        ],
        "answer": [
            ("tokens", written),
            ("first token", seconds(answer.time_to_first_token)),
            ("decode", number(answer.tokens_per_second, " tok/s")),
            ("total", seconds(total)),
            ("memory", MISSING if answer.peak_memory is None else size(answer.peak_memory)),
        ],
        "setup": [
            ("load", load),
            ("prompt", number(answer.prompt_tokens, " tokens")),
            ("cached", number(answer.cached_tokens, " tokens")),
            ("prefill", seconds(answer.prefill_seconds)),
            ("speed", number(answer.prefill_rate, " tok/s")),
        ],
    }


class AnswerFigures(Widget):
    """The figures of an answer in columns; a narrow screen omits the last ones."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def render(self) -> Content:
        columns = [self.column(name, pairs) for name, pairs in groups(self.answer).items()]
        gap = 10 if self.content_size.width >= 90 else 4
        lines, used = [Content() for _ in columns[0]], 0
        for column in columns:
            width = max(line.cell_length for line in column)
            if used and used + width > self.content_size.width:
                break
            lines = [
                line + cell + " " * (width + gap - cell.cell_length) for line, cell in zip(lines, column, strict=True)
            ]
            used += width + gap
        return Content("\n").join(line.rstrip() for line in lines)

    def column(self, name: str, pairs: list[tuple[str, str]]) -> list[Content]:
        """One group: its name and its aligned figures."""
        longest = max(len(label) for label, _ in pairs)
        return [
            Content.styled(name, "bold $accent"),
            *(
                Content.assemble(
                    (f"{label:{longest}}  ", "$muted"), (printable(value), "$muted" if value == MISSING else "$text")
                )
                for label, value in pairs
            ),
        ]


class LatencyScreen(EndsOnce, Screen[None]):
    """The latencies of an answer as figures, chart, histogram and table."""

    CSS_PATH = Path(__file__).with_name("latencies.tcss")
    BINDINGS = [
        Binding("escape,l,q", "dismiss", "Back", key_display="esc", id="latencies.leave"),
        Binding("c", "export('csv')", "Save CSV", id="latencies.csv"),
        Binding("j", "export('json')", "Save JSON", id="latencies.json"),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (76, "-medium"), (108, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-short"), (30, "-high")]

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def compose(self) -> ComposeResult:
        yield Title(self.answer)
        yield AnswerFigures(self.answer)
        with Horizontal(id="charts"):
            yield LatencyChart(self.answer.latencies, self.answer.begun + 2)
            yield LatencyHistogram(self.answer.latencies)
        yield TokenTable(self.answer.steps, self.answer.begun + 1)
        yield Keys()

    def on_mount(self) -> None:
        self.query_one(TokenTable).focus()

    @on(TokenTable.Moved)
    def point_in_the_chart(self, message: TokenTable.Moved) -> None:
        self.query_one(LatencyChart).point(message.step.number)

    def action_export(self, form: Form) -> None:
        """Ask where to save the measurements, proposing an unused name."""
        self.ask_where(str(propose_path(Path.cwd(), f"{self.answer.model or 'answer'}-latencies", form)))

    def ask_where(self, proposed: str) -> None:
        """Ask for a path and save there; ask again if that fails."""

        def write(given: str | None) -> None:
            if given is not None:
                try:
                    path = Path.cwd() / expand(given)
                    save(self.answer, path)
                except InputError as error:
                    self.notify(f"{printable(str(error))}.", severity="error", markup=False)
                    self.ask_where(given)
                else:
                    self.notify(f"Saved as {printable(str(path))}", markup=False)

        self.app.push_screen(AskLine("Save as", proposed, "enter saves it, esc cancels"), write)


class Title(Widget):
    """The screen's title, and where the model ran."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(classes="bar")
        self.answer = answer

    def render(self) -> Content:
        known = [one for one in (self.answer.backend, self.answer.device, self.answer.precision) if one]
        right = Content.styled(printable(" · ".join(known)), "$muted")
        left = Content.assemble(("Latencies", "bold $accent"), (f"   {printable(self.answer.model)}", "$text"))
        room = self.content_size.width - right.cell_length
        left = left.truncate(max(0, room - 2), ellipsis=True)
        return left + " " * (room - left.cell_length) + right
