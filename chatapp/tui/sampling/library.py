"""Screens of what is kept under names: what was refused, what a second key deletes, and the question for a name."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Static

from chatapp.text.errors import InputError, begin_sentence
from chatapp.text.printable import printable
from chatapp.tui.widgets.textual_fixes import Choices, EndsOnce
from chatapp.tui.widgets.windows import AskLine


class Library(EndsOnce, ModalScreen[ScreenResultType]):
    """A box over the page, in which things are chosen, saved and deleted by their names."""

    CSS_PATH = "screens.tcss"
    doomed = ""
    """What a second `d` deletes, or a second enter replaces."""

    def compose_around(self, title: str, side: Widget, keys: str) -> ComposeResult:
        """The names, and what stands beside them, between the title and the keys."""
        with Vertical(id="box"):
            yield Static(title, id="title")
            with Horizontal(id="middle"):
                yield Choices(compact=True)
                yield side
            yield Static(id="refusal", markup=False)
            yield Static(keys, id="keys")

    def fill(self, name: str) -> None:
        """Read what is kept, and go to this one."""
        raise NotImplementedError

    def act(self, change: Callable[[], object], then: str) -> str:
        """Change what is kept and show it; gives the reason where that fails."""
        try:
            change()
        except InputError as error:
            return str(error)
        self.fill(then)
        return ""

    def delete(self, name: str, built_in: bool, delete: Callable[[], object]) -> None:
        """Delete what has a name, when asked twice; what is built in says why not."""
        if built_in or self.is_doomed(name):
            self.refuse(self.act(delete, ""))
        else:
            self.refuse(f"d once more deletes {name!r}")

    def ask_name(self, question: str, value: str, keep: Callable[[str], str]) -> None:
        """Ask for a name, again as long as `keep` gives a reason why it cannot be that one."""

        def take(name: str | None) -> None:
            if name is None:
                self.doomed = ""
            elif reason := keep(" ".join(name.split())):
                self.ask_name(printable(begin_sentence(reason)), name, keep)

        self.app.push_screen(AskLine(question, value), take)

    def refuse(self, reason: str) -> None:
        """Say why something cannot be; nothing takes it back."""
        self.query_one("#refusal", Static).update(printable(reason))

    def is_doomed(self, name: str) -> bool:
        """Whether a name was warned of before; it is from now on."""
        before, self.doomed = self.doomed, name
        return before == name


def draw_name(name: str, built_in: bool, width: int) -> Content:
    """A name in the list, and whether it is the user's own."""
    kind = "" if built_in else "yours"
    return Content.assemble(
        " ", Content(printable(name)).truncate(width - len(kind), ellipsis=True, pad=True), (kind, "$muted")
    )
