"""An app with our themes, for a part of the screen by itself."""

from typing import ClassVar

from textual.app import App
from textual.types import CSSPathType

import themes
from chatapp.tui.app import ChatApp
from chatapp.tui.theme import palette


class ThemedApp(App[None]):
    """An app in our colours and shapes."""

    CSS_PATH: ClassVar[CSSPathType | None] = ChatApp.CSS_PATH

    def __init__(self, theme: str = "midnight") -> None:
        super().__init__()
        for ours in themes.load().values():
            self.register_theme(palette(ours))
        self.theme = theme
