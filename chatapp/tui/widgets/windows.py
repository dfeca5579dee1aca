"""Screens: small windows to read a text, write a line, or press a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from chatapp.text.markdown import cut
from chatapp.text.printable import printable
from chatapp.tui.opening import Front, Opening
from chatapp.tui.widgets.buttons import Buttons, as_button
from chatapp.tui.widgets.textual_fixes import Choices, EndsOnce

MOST = 30
"""Maximum visible lines."""
EDGES = 8
"""Lines of the window besides the text."""


class Window(EndsOnce, ModalScreen[ScreenResultType]):
    """A window with a heading, a widget and a note."""

    def __init__(self, heading: str, inside: Widget | None, note: str) -> None:
        super().__init__()
        self.heading, self.inside = heading, inside
        self.note = Static(note, markup=False, classes="note")

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(self.heading, markup=False, classes="heading")
            if self.inside:
                yield self.inside
            yield self.note


class Finder(EndsOnce, ModalScreen[ScreenResultType]):
    """An input and a list of matches, which the arrow keys move in; dismisses with the chosen match."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Sequence[ScreenResultType] = ()
        self.places = Choices(compact=True)
        self.places.can_focus = False

    def action_walk(self, step: str) -> None:
        getattr(self.places, f"action_{step}")()

    @on(Input.Submitted)
    def choose(self) -> None:
        if self.found and self.places.highlighted is not None:
            self.dismiss(self.found[self.places.highlighted])

    @on(OptionList.OptionSelected)
    def choose_by_click(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.found[event.option_index])


class NoteScreen(Window[None]):
    """A text to read, which scrolls if necessary."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back", id="note.leave")]

    def __init__(self, heading: str, text: str) -> None:
        lines = Static(printable(cut(text)), markup=False)
        super().__init__(heading, VerticalScroll(lines, classes="lines"), "esc goes back")

    def on_resize(self, event: events.Resize) -> None:
        """Limit the height so that the end of the text can be reached on a low screen."""
        self.query_one(VerticalScroll).styles.max_height = max(1, min(MOST, event.size.height * 9 // 10 - EDGES))


class AskLine(Window[str | None]):
    """A question with a line to type; dismisses with the line, or None if the user cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", id="line.leave"),
        Binding("ctrl+s", "take", show=False),  # pressing the key that opened it once more
    ]

    def __init__(self, question: str, value: str = "", hint: str = "enter confirms, esc cancels"):
        super().__init__(question, Input(value), hint)

    @on(Input.Submitted)
    def action_take(self) -> None:
        """Dismiss with the line, unless it is empty."""
        if line := self.query_one(Input).value.strip():
            self.dismiss(line)


class CountScreen(Window[int | None]):
    """Asks for a number of answers; dismisses with 2 to 9, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back", id="count.leave")]

    def __init__(self) -> None:
        digits = Content(" ").join([as_button(str(n), f" {n} ", "bold $accent") for n in range(2, 10)])
        note = "press a number; they are decoded together, and you keep one"
        super().__init__("How many answers at once?", Buttons(digits), note)

    @classmethod
    def over(cls, front: Front) -> Opening:
        """Ask how many answers the model should write."""

        async def take(n: int | None) -> None:
            if n:
                await front.several(n)

        return cls(), take

    def on_key(self, event: events.Key) -> None:
        if event.character and event.character in "23456789":
            event.stop()
            self.dismiss(int(event.character))
