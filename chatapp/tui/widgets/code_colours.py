"""Syntax colours that are legible in every theme."""

from __future__ import annotations

from pygments.token import Token
from textual.highlight import HighlightTheme


class CodeColours(HighlightTheme):
    """Textual's syntax colours in terms of our themes.

    Textual's comments are too pale on light backgrounds; and with the terminal's own colours it uses the default
    foreground, which may equal the theme's background.
    """

    STYLES = HighlightTheme.STYLES | {
        Token.Comment: "$muted",
        Token.Error: "$error",
        Token.Generic.Error: "$error",
        Token.Literal.String.Backtick: "$muted",
    }
