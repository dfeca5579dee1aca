"""Widget: the completions of the prompt, shown above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.content import Content
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

ROWS: Final = 8
"""Maximum rows visible at once."""


@dataclass(frozen=True)
class Choice:
    """A row."""

    name: str
    about: str
    """A short description."""
    text: str
    """The text it inserts."""
    guess: bool = False
    """Whether it is a doubtful match: enter takes it only after the user moved to it."""


class Popup(Widget):
    """Rows of choices, one highlighted, and a note below them; it never has the focus."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"popup--chosen", "popup--about", "popup--note", "popup--problem"}
    DEFAULT_CSS = """
    Popup {
        overlay: screen;
        offset-y: -100%;
        display: none;
        background: $panel;
        color: $text;

        .popup--chosen { color: $background; background: $accent; }
        .popup--about { color: $text-muted; background: $panel; }
        .popup--note { color: $text-muted; background: $background; }
        .popup--problem { color: $warning; background: $background; }
    }
    """

    def __init__(self, prompt: Widget, pick: Callable[[int], object]) -> None:
        super().__init__()
        self.prompt, self.pick = prompt, pick
        """Called with the index of a clicked row."""
        self.choices: Sequence[Choice] = ()
        self.chosen = self.rows = 0
        """The index of the highlighted choice, and how many rows fit."""
        self.went = False
        """Whether the user moved to the highlighted choice."""
        self.weight = ""
        """More about the highlighted choice, such as its tokens."""
        self.note, self.problem = "", ""

    @property
    def current(self) -> Choice | None:
        """The highlighted choice."""
        return self.choices[self.chosen] if self.choices else None

    @property
    def is_meant(self) -> bool:
        """Whether enter takes the highlighted choice."""
        return self.went or not self.choices[self.chosen].guess

    @property
    def first(self) -> int:
        """The index of the choice in the first row."""
        return max(0, self.chosen - self.rows + 1)

    def offer(self, choices: Sequence[Choice]) -> None:
        """Show these choices, the first one highlighted; none closes the popup."""
        self.choices, self.chosen, self.weight, self.went = choices, 0, "", False
        self.stretch()

    def show_note(self, note: str = "", problem: str = "") -> None:
        """Show a note or a problem below the choices."""
        if (note, problem) != (self.note, self.problem):
            self.note, self.problem = note, problem
            self.stretch()

    def move(self, rows: int) -> None:
        """Move the highlight, wrapping around."""
        self.chosen, self.weight, self.went = (self.chosen + rows) % len(self.choices), "", True
        self.refresh()

    def show_detail(self, weight: str) -> None:
        """Show more about the highlighted choice."""
        self.weight = weight
        self.refresh()

    def stretch(self) -> None:
        """Take as many rows as fit above the prompt, if that has the focus."""
        below = bool(self.note or self.problem)
        self.rows = min(len(self.choices), max(1, min(ROWS, self.prompt.region.y - below)))
        self.styles.height = self.rows + below
        self.display = self.rows + below > 0 and self.prompt.has_focus
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= self.rows:
            name = "popup--problem" if self.problem else "popup--note"
            line = Content(self.problem or self.note).truncate(width, ellipsis=True, pad=True)
            return strip(line, self.get_visual_style(name), width)
        choice, is_chosen = self.choices[self.first + y], self.first + y == self.chosen
        about = self.weight or choice.about if is_chosen else choice.about
        names, abouts = (
            max(Content(text).cell_length for text in texts)
            for texts in ([each.name for each in self.choices], [each.about for each in self.choices] + [about])
        )
        room = max(width // 2, width - abouts - 3)
        left = Content(f" {choice.name}").truncate(min(room, max(names, 18) + 3), ellipsis=True, pad=True)
        style = self.get_visual_style("popup--chosen") if is_chosen else self.visual_style
        muted = style if is_chosen else self.get_visual_style("popup--about")
        line = left + Content(f" {about}").stylize(muted).truncate(
            max(0, width - left.cell_length), ellipsis=True, pad=True
        )
        return strip(line, style, width)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y < self.rows:
            self.pick(self.first + event.y)


def strip(line: Content, style: Style, width: int) -> Strip:
    """A row of exactly this width."""
    return Strip(line.render_segments(style)).adjust_cell_length(width, style.rich_style)
