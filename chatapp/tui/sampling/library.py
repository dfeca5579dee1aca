"""Screens of what is kept under names: a list of them, what was refused, and a line in which a name is asked for."""

from __future__ import annotations

from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, Static

from chatapp.text.printable import printable
from chatapp.tui.widgets.textual_fixes import EndsOnce


class Library(EndsOnce, ModalScreen[ScreenResultType]):
    """A box over the page, in which things are chosen, saved and deleted by their names."""

    CSS_PATH = "screens.tcss"
    doomed = ""
    """What a second `d` deletes, or a second enter replaces."""

    @property
    def naming(self) -> bool:
        """Whether a name is asked for."""
        return self.query_one(Input).has_class("-asked")

    def ask_name(self, value: str) -> None:
        """Ask for a name, and offer one."""
        asked = self.query_one(Input)
        asked.value, asked.cursor_blink = value, False
        asked.cursor_position = len(value)
        asked.add_class("-asked")
        asked.focus()

    def stop_naming(self) -> None:
        """Ask for no name any more, and go back to what had the keys."""
        self.doomed = ""
        self.query_one(Input).remove_class("-asked")
        self.home().focus()

    def home(self) -> Widget:
        """What has the keys where no name is asked for."""
        raise NotImplementedError

    def refuse(self, reason: str) -> None:
        """Say why something cannot be; nothing takes it back."""
        self.query_one("#refusal", Static).update(printable(reason))

    def is_doomed(self, name: str, warning: str) -> bool:
        """Whether a name was warned of before; it is from now on."""
        if self.doomed == name:
            return True
        self.doomed = name
        self.refuse(warning)
        return False

    def action_leave(self) -> None:
        """Leave the line for a name, then the screen."""
        if self.naming:
            self.stop_naming()
        else:
            self.dismiss(None)
