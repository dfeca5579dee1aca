"""Screens of what is kept under names: what was refused, what a second key deletes, and the question for a name."""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Static

from chatapp.text.errors import begin_sentence
from chatapp.text.printable import printable
from chatapp.tui.widgets.textual_fixes import EndsOnce
from chatapp.tui.widgets.windows import AskLine


class Library(EndsOnce, ModalScreen[ScreenResultType]):
    """A box over the page, in which things are chosen, saved and deleted by their names."""

    CSS_PATH = "screens.tcss"
    doomed = ""
    """What a second `d` deletes, or a second enter replaces."""

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
