"""Widget: finished Markdown, with prose of readable width and code in the theme's colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.constrain import Constrain
from rich.markdown import BlockQuote, Heading, ListElement, Markdown, MarkdownElement, Paragraph
from rich.segment import Segment
from rich.style import Style
from rich.syntax import SyntaxTheme, TokenType
from rich.theme import Theme
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style as Look
from textual.widgets import Static

from chatapp.text.markdown import shared_parser, tame
from chatapp.tui.widgets.code_colours import CodeColours

if TYPE_CHECKING:
    from textual.app import App

WIDEST = 100
"""Maximum columns of prose; code and tables use all the width."""
EDGES = " •▌┃"
"""Characters before a text in its row: bullets, and the edges of quotations and headings."""
EDGE = 4
"""Columns that may be empty at the end of a full row."""
NUMBER = re.compile(r"^\d+ ")
"""The number before a list item."""


def narrow(kind: type[MarkdownElement]) -> type[MarkdownElement]:
    """A Markdown element limited to the width of prose."""

    class Narrow(kind):  # type: ignore[misc, valid-type]  # any of Rich's
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options.update_width(min(WIDEST, options.max_width))):
                yield part if isinstance(part, Segment) else Constrain(part, WIDEST)

    return Narrow


class Prose(Markdown):
    """Markdown whose prose is at most WIDEST columns wide."""

    elements = Markdown.elements | {
        "paragraph_open": narrow(Paragraph),
        "heading_open": narrow(Heading),
        "bullet_list_open": narrow(ListElement),
        "ordered_list_open": narrow(ListElement),
        "blockquote_open": narrow(BlockQuote),
    }


class CodeTheme(SyntaxTheme):
    """Syntax colours for Rich, in the current theme."""

    def __init__(self, app: App[None]) -> None:
        self.app = app

    def get_style_for_token(self, token_type: TokenType) -> Style:
        kinds = (token_type[:length] for length in range(len(token_type), 0, -1))  # itself, then its parent types
        look = next((CodeColours.STYLES[kind] for kind in kinds if kind in CodeColours.STYLES), "")
        return self.style(look or "$text")

    def get_background_style(self) -> Style:
        return self.style("$text")

    def words(self) -> Theme:
        """A Rich theme for prose that resembles Textual's Markdown widget."""
        named = self.app.theme_variables
        looks = {f"h{n}": f"{named[f'markdown-h{n}-text-style']} {named[f'markdown-h{n}-color']}" for n in range(1, 7)}
        looks |= {"item.number": "$accent", "block_quote": "$text-muted"}
        looks |= {"table.header": "not bold $accent", "table.border": "$text-muted"}
        styles = {f"markdown.{name}": self.style(look, "$background") for name, look in looks.items()}
        return Theme(styles | {"markdown.code": self.style("bold $accent")})

    def style(self, look: str, paper: str = "$surface") -> Style:
        """A style on this background, as a Rich style."""
        under = Look.parse(f"on {paper}", self.app.theme_variables)
        return (under + Look.parse(look, self.app.theme_variables)).rich_style


class Coloured:
    """An answer as one renderable, with code in the theme's colours."""

    def __init__(self, text: str, app: App[None]) -> None:
        self.app, self.theme = app, CodeTheme(app)
        self.made = Prose("", hyperlinks=False, code_theme=self.theme)  # type: ignore[arg-type]  # Syntax takes either
        self.made.parsed = shared_parser().parse(tame(text))
        self.segments: list[Segment] = []
        self.made_for = (0, "")
        """Width and theme of the cached segments; dragging a selection paints them many times."""

    @cached_property
    def lines(self) -> Sequence[str]:
        """Its lines of prose and code before wrapping."""
        found = list[str]()
        for token in self.made.parsed:
            if token.type == "inline":
                found.append("".join(" " if one.type == "softbreak" else one.content for one in token.children or ()))
            else:
                found += token.content.split("\n")
        return found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        if self.made_for != (wanted := (options.max_width, self.app.theme)):
            with console.use_theme(self.theme.words()):
                self.segments, self.made_for = list(console.render(self.made, options)), wanted
        return self.segments


class Settled(Static):
    """An answer in one widget whose text can be selected, which Textual does not support for Rich renderables."""

    def render_line(self, y: int) -> Strip:
        line = super().render_line(y)
        selection = self.text_selection
        if selection and (part := chosen(selection, y)):
            text = line.text.rstrip()
            start, width = cell_len(text[: part.start]), cell_len(text[part])
            look = Look.from_styles(self.screen.get_component_styles("screen--selection")).rich_style
            selected = Segment.apply_style(line.crop(start, start + width), post_style=look)
            line = Strip.join([line.crop(0, start), Strip(selected), line.crop(start + width)])
        return line.apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """The selected text, with its own lines instead of the wrapped ones."""
        lines = list[str]()
        for y in range(self.size.height):
            if part := chosen(selection, y):
                line = super().render_line(y)
                padded = not part.start and [one.text for one in line][:1] == [" "]  # code and tables are padded
                text = line.text[part][padded:].rstrip()
                if lines and (between := self.wrapped_at(y)) is not None:
                    lines[-1] += between + text.lstrip(EDGES)
                else:
                    lines.append(text)
        return "\n".join(lines), "\n"

    def wrapped_at(self, y: int) -> str | None:
        """What a line wrap between this row and the one above replaced; None if there was a line end."""
        above, row = (super(Settled, self).render_line(place).text.rstrip() for place in (y - 1, y))
        full = min(WIDEST, self.size.width) - EDGE
        above, row, taken = NUMBER.sub("", above.strip(EDGES)), row.strip(EDGES), cell_len(above)
        assert isinstance(self.content, Coloured)
        if (
            above and row and taken + cell_len(row.partition(" ")[0]) >= full
        ):  # otherwise its first word would fit above
            for between in (" ", ""):
                if any(above + between + row in line for line in self.content.lines):
                    return between
        return None


def chosen(selection: Selection, y: int) -> slice | None:
    """The selected characters of a line, or None."""
    span = selection.get_span(y)
    return slice(span[0], None if span[1] < 0 else span[1]) if span else None
