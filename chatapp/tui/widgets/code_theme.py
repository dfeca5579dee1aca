"""The theme's colours for code in a Rich renderable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from rich.syntax import SyntaxTheme, TokenType
from rich.theme import Theme
from textual.highlight import HighlightTheme
from textual.style import Style as Look

from chatapp.text.markdown import rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment
    from textual.app import App


class CodeTheme(SyntaxTheme):
    """The colours that code has in widgets, in the theme of the moment."""

    def __init__(self, app: App[None]) -> None:
        self.app = app

    def get_style_for_token(self, token_type: TokenType) -> Style:
        look = next((HighlightTheme.STYLES[kind] for kind in kinds(token_type) if kind in HighlightTheme.STYLES), "")
        return self.style(f"{look or '$text'} on $surface")

    def get_background_style(self) -> Style:
        return self.style("$text on $surface")

    def words(self) -> Theme:
        """The look of code in a line of text, which Rich would paint on black."""
        return Theme({"markdown.code": self.style("bold $accent on $surface")})

    def style(self, look: str) -> Style:
        """A look in Rich's terms."""
        under = Look.parse("on $surface", self.app.theme_variables)
        return (under + Look.parse(look, self.app.theme_variables)).rich_style


def kinds(token_type: TokenType) -> list[TokenType]:
    """A kind of token, and those that it is a kind of, the nearest first."""
    return [token_type[:length] for length in range(len(token_type), 0, -1)]


class Coloured:
    """A whole answer as one renderable, with its code in the theme's colours."""

    def __init__(self, text: str, app: App[None]) -> None:
        self.theme = CodeTheme(app)
        self.made = rendered(text, self.theme)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        with console.use_theme(self.theme.words()):
            yield from console.render(self.made, options)
