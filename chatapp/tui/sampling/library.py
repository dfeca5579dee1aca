"""Screens for named things (presets, system prompts): choosing, saving and deleting them."""

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
    """A window with a list of names, in which things are chosen, saved and deleted."""

    CSS_PATH = "screens.tcss"
    warned = ""
    """The name that a second `d` deletes, or a second enter replaces."""

    def compose_around(self, title: str, side: Widget, keys: str) -> ComposeResult:
        """The list of names and a widget beside it, between title and keys."""
        with Vertical(id="box"):
            yield Static(title, id="title")
            with Horizontal(id="middle"):
                yield Choices(compact=True)
                yield side
            yield Static(id="refusal", markup=False)
            yield Static(keys, id="keys")

    def fill(self, name: str) -> None:
        """Read the names, and go to this one."""
        raise NotImplementedError

    def act(self, change: Callable[[], object], then: str) -> str:
        """Run a change and update the list; returns an error message, or an empty string."""
        try:
            change()
        except InputError as error:
            return str(error)
        self.fill(then)
        return ""

    def delete(self, name: str, built_in: bool, delete: Callable[[], object]) -> None:
        """Delete a name when asked twice; a built-in one is refused."""
        if built_in or self.was_warned(name):
            self.refuse(self.act(delete, ""))
        else:
            self.refuse(f"press d again to delete {name!r}")

    def ask_name(self, question: str, value: str, keep: Callable[[str], str]) -> None:
        """Ask for a name until `keep` returns no error message."""

        def take(name: str | None) -> None:
            if name is None:
                self.warned = ""
            elif reason := keep(" ".join(name.split())):
                self.ask_name(printable(begin_sentence(reason)), name, keep)

        self.app.push_screen(AskLine(question, value), take)

    def refuse(self, reason: str) -> None:
        """Show why something was refused; an empty reason clears it."""
        self.query_one("#refusal", Static).update(printable(reason))

    def was_warned(self, name: str) -> bool:
        """Whether this name was warned about before; from now on it was."""
        before, self.warned = self.warned, name
        return before == name


def draw_name(name: str, built_in: bool, width: int) -> Content:
    """A name in the list, marked if it is the user's own."""
    kind = "" if built_in else "yours"
    return Content.assemble(
        " ", Content(printable(name)).truncate(width - len(kind), ellipsis=True, pad=True), (kind, "$muted")
    )
