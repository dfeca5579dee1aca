"""How a token looks for its probability, in colours and without."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.style import Style
from textual.color import Color

STEPS = (0.9, 0.7, 0.5, 0.2, 0.05)
"""The least probability of each look but the last."""
NAMES = ("≥ 90", "≥ 70", "≥ 50", "≥ 20", "≥ 5", "< 5 %")

TINTS = (
    # what is blended into the background, how much of it, and what tells the step apart without its colour
    ("warning", 0.00, Style()),
    ("warning", 0.13, Style()),
    ("warning", 0.26, Style()),
    ("error", 0.38, Style(underline=True)),
    ("error", 0.55, Style(underline=True, bold=True)),
)
PLAIN = (
    Style(dim=True),
    Style(),
    Style(italic=True),
    Style(underline=True),
    Style(underline=True, bold=True),
    Style(reverse=True, bold=True),
)
"""Where there are no colours to blend."""


def step(logprob: float) -> int:
    """Which look a log-probability has, from 0, the likeliest."""
    share = math.exp(min(0.0, logprob))
    return next((place for place, least in enumerate(STEPS) if share >= least), len(STEPS))


def shades(variables: Mapping[str, str], *, plain: bool) -> tuple[Style, ...]:
    """The look of each step in a theme; `plain` where the terminal's own sixteen colours are used, or none."""
    if plain:
        return PLAIN
    colour = {name: Color.parse(variables[name]) for name in ("background", "text", "warning", "error")}
    page, ink = colour["background"], colour["text"].rich_color
    blended = [
        Style(color=ink, bgcolor=page.blend(colour[name], share).rich_color) + mark for name, share, mark in TINTS
    ]
    return (*blended, Style(color=page.rich_color, bgcolor=colour["error"].rich_color, bold=True, underline=True))
