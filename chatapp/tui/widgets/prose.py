"""Markdown that does not change any more: prose no wider than people like to read, code in the theme's colours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.constrain import Constrain
from rich.markdown import BlockQuote, Heading, ListElement, Markdown, MarkdownElement, Paragraph
from rich.segment import Segment
from rich.style import Style
from rich.syntax import SyntaxTheme, TokenType
from rich.theme import Theme
from textual.style import Style as Look

from chatapp.text.markdown import make_parser, tame
from chatapp.tui.widgets.code_colours import CodeColours

if TYPE_CHECKING:
    from textual.app import App

WIDEST = 100
"""Columns of prose; code and tables are as wide as there is room."""


def narrow(kind: type[MarkdownElement]) -> type[MarkdownElement]:
    """A kind of element within the width of prose."""

    class Narrow(kind):  # type: ignore[misc, valid-type]  # any of Rich's
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options.update_width(min(WIDEST, options.max_width))):
                yield part if isinstance(part, Segment) else Constrain(part, WIDEST)

    return Narrow


class Prose(Markdown):
    """Markdown whose prose is no wider than WIDEST."""

    elements = Markdown.elements | {
        "paragraph_open": narrow(Paragraph),
        "heading_open": narrow(Heading),
        "bullet_list_open": narrow(ListElement),
        "ordered_list_open": narrow(ListElement),
        "blockquote_open": narrow(BlockQuote),
    }


class CodeTheme(SyntaxTheme):
    """The colours that code has in widgets, in the theme of the moment."""

    def __init__(self, app: App[None]) -> None:
        self.app = app

    def get_style_for_token(self, token_type: TokenType) -> Style:
        kinds = (token_type[:length] for length in range(len(token_type), 0, -1))  # itself, and what it is a kind of
        look = next((CodeColours.STYLES[kind] for kind in kinds if kind in CodeColours.STYLES), "")
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


class Coloured:
    """A whole answer as one renderable, with its code in the theme's colours."""

    def __init__(self, text: str, app: App[None]) -> None:
        self.theme = CodeTheme(app)
        self.made = Prose("", hyperlinks=False, code_theme=self.theme)  # type: ignore[arg-type]  # Syntax takes either
        self.made.parsed = make_parser().parse(tame(text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        with console.use_theme(self.theme.words()):
            yield from console.render(self.made, options)
