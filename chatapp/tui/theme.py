"""Our themes as Textual themes."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color
from textual.theme import Theme as Palette

import themes

VARIABLES = {
    "surface": "surface",
    "panel": "panel boost footer-background block-hover-background",
    "background": "ansi-background input-cursor-foreground scrollbar-background",
    "text": "ansi-foreground text block-cursor-foreground block-cursor-blurred-foreground input-selection-foreground "
    "screen-selection-foreground",
    "muted": "muted text-muted text-disabled border-blurred footer-description-foreground",
    "model": "model",
    "selection": "selection block-cursor-background block-cursor-blurred-background input-selection-background "
    "screen-selection-background",
    "accent": "border input-cursor-background footer-key-foreground",
}
"""For each of our colours, the names of Textual's variables that get it."""


def palette(theme: themes.Theme) -> Palette:
    """A theme for `App.register_theme`."""
    variables = {name: getattr(theme, colour) for colour, names in VARIABLES.items() for name in names.split()}
    variables |= dict.fromkeys(("block-cursor-text-style", "input-cursor-text-style"), "none")
    variables["scrollbar"] = theme.muted if theme.ansi else theme.muted + "55"
    return Palette(
        theme.name,
        primary=theme.accent,
        secondary=theme.model,
        accent=theme.accent,
        foreground=theme.text,
        background=theme.background,
        surface=theme.surface,
        panel=theme.panel,
        boost=theme.panel,
        success=theme.success,
        warning=theme.warning,
        error=theme.error,
        dark=theme.dark,
        ansi=theme.ansi,
        variables=variables,
    )


def painted(variables: Mapping[str, str], ink: str, paper: str = "") -> Style:
    """A Rich style from theme variables: text colour and, optionally, background."""
    background = Color.parse(variables[paper]).rich_color if paper else None
    return Style(color=Color.parse(variables[ink]).rich_color, bgcolor=background)
