"""Our themes in Textual's terms."""

from __future__ import annotations

from textual.theme import Theme as Palette

import themes


def palette(theme: themes.Theme) -> Palette:
    """One of our themes, for `App.register_theme`."""
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
        variables={
            "surface": theme.surface,
            "panel": theme.panel,
            "boost": theme.panel,
            "ansi-background": theme.background,
            "ansi-foreground": theme.text,
            "text": theme.text,
            "text-muted": theme.muted,
            "text-disabled": theme.muted,
            "muted": theme.muted,
            "model": theme.model,
            "selection": theme.selection,
            "border": theme.accent,
            "border-blurred": theme.muted,
            "block-cursor-text-style": "none",
            "block-cursor-foreground": theme.text,
            "block-cursor-background": theme.selection,
            "block-cursor-blurred-foreground": theme.text,
            "block-cursor-blurred-background": theme.selection,
            "block-hover-background": theme.panel,
            "input-cursor-text-style": "none",
            "input-cursor-foreground": theme.background,
            "input-cursor-background": theme.accent,
            "input-selection-foreground": theme.text,
            "input-selection-background": theme.selection,
            "screen-selection-foreground": theme.text,
            "screen-selection-background": theme.selection,
            "footer-background": theme.panel,
            "footer-key-foreground": theme.accent,
            "footer-description-foreground": theme.muted,
            "scrollbar": theme.muted if theme.ansi else theme.muted + "55",
            "scrollbar-background": theme.background,
        },
    )
