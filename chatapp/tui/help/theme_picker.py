"""Screen: choose a theme, previewing the one under the cursor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.style import Style
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from chatapp.tui.widgets.textual_fixes import Choices, EndsOnce
from themes import Theme

ROLES = ("accent", "model", "success", "warning", "error")


class ThemePicker(EndsOnce, ModalScreen[str | None]):
    """Dismisses with the chosen theme's name; escape restores the previous theme and dismisses with None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave_it", "Back", id="themes.back")]
    CSS = """
    ThemePicker {
        align: right top;
        background: transparent;
        .window, .window OptionList { max-height: 100%; }
        .window { width: 40; padding: 0 1; }
    }
    """

    def __init__(self, themes: Iterable[Theme]) -> None:
        super().__init__()
        self.choice = list(themes)
        self.before = ""
        """The theme to restore."""

    def compose(self) -> ComposeResult:
        self.before = self.app.theme
        names = [theme.name for theme in self.choice]
        with Vertical(classes="window") as box:
            box.border_title, box.border_subtitle = "Theme", "enter keeps it, esc goes back"
            options = Choices(*(Option(row(theme), theme.name) for theme in self.choice), compact=True)
            options.highlighted = names.index(self.before) if self.before in names else 0
            yield options

    @on(OptionList.OptionHighlighted)
    def preview(self, message: OptionList.OptionHighlighted) -> None:
        if self.is_current and message.option_id and message.option_id != self.app.theme:  # current: not after escape
            self.app.theme = message.option_id

    @on(OptionList.OptionSelected)
    def take(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(message.option_id)

    def action_leave_it(self) -> None:
        self.app.theme = self.before
        self.dismiss(None)


def row(theme: Theme) -> Content:
    """Name, dark or light, and the colours on the theme's background."""
    swatch = [(" ●", Style.parse(f"{getattr(theme, role)} on {theme.background}")) for role in ROLES]
    end = (" ", Style.parse(f"on {theme.background}"))
    return Content.assemble(f"{theme.name[:14]:15}", ("dark  " if theme.dark else "light "), *swatch, end)
