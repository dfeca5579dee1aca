"""Screens: questions before a model is pulled or removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from chatapp.models.facts import describe_plan
from chatapp.text.printable import printable
from chatapp.text.units import size
from chatapp.tui.models.columns import draw_fact
from chatapp.tui.widgets.buttons import Buttons, as_button
from chatapp.tui.widgets.textual_fixes import EndsOnce

WIDTH = 76
EDGES = 6
"""Cells of border and padding; as many rows are not available to the question."""
FILES = 3
"""How many files a question names, largest first."""


class Asking(EndsOnce, ModalScreen[bool]):
    """A yes-or-no question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "dismiss(True)", "Yes"),
        Binding("n,escape,ctrl+c", "dismiss(False)", "No"),
    ]
    CSS = """
    Asking {
        .window { width: 76; max-width: 96%; }
        VerticalScroll { height: auto; }
    }
    """

    def __init__(self, question: Content, yes: str) -> None:
        super().__init__()
        self.question, self.yes = question, yes

    def compose(self) -> ComposeResult:
        yes, no = as_button("y", " y ", "bold $background on $accent"), as_button("n", " n ", "bold on $panel")
        keys = Content.assemble("\n", yes, f" {self.yes}   ", no, " no")
        with Vertical(classes="window"):
            with VerticalScroll():
                yield Static(self.question, markup=False)
            yield Buttons(keys)

    def on_resize(self, event: events.Resize) -> None:
        """Keep the answers in view."""
        self.query_one(VerticalScroll).styles.max_height = max(1, event.size.height * 9 // 10 - EDGES)


def ask(app: App[None], question: Content, yes: str, act: Callable[[], object]) -> None:
    """Ask, and call `act` on yes."""

    def answered(wanted: bool | None) -> None:
        if wanted:
            act()

    app.push_screen(Asking(question, yes), answered)


def pull_question(plan: Mapping[str, Any], width: int) -> Content:  # Any: JSON, as `chatapp pull --json` prints it
    """What a pull involves, for a screen of this width."""
    width = min(WIDTH, width * 96 // 100) - EDGES
    parts = [(f"Pull {printable(plan['model'])}?\n\n", "bold $text")]
    for fact in describe_plan(plan, plan["repository"], FILES):
        parts += draw_fact(fact, width)
    fit = printable("; ".join(plan["problems"]))
    parts.append((f"\nIt does not fit: {fit}." if fit else "\nIt fits this machine.", "$error" if fit else "$success"))
    return Content.assemble(*parts)


def removal_question(name: str, freed: int) -> Content:
    """What removing a model involves."""
    return Content.assemble(
        (f"Remove {printable(name)}?\n\n", "bold $text"),
        (f"This frees {size(freed)}. ", "$text"),
        ("Its download and the files made from it are deleted; your own folders stay.", "$muted"),
    )
