"""The colours of code, legible in every theme."""

from __future__ import annotations

from pygments.token import Token
from textual.highlight import HighlightTheme


class CodeColours(HighlightTheme):
    """Textual's colours of code, by the roles of the theme.

    Its comments are too pale on light paper; and for the colours of a terminal it has others of its own,
    with the terminal's default as ink, which may be the very colour of the theme's paper.
    """

    STYLES = HighlightTheme.STYLES | {
        Token.Comment: "$muted",
        Token.Error: "$error",
        Token.Generic.Error: "$error",
        Token.Literal.String.Backtick: "$muted",
    }
