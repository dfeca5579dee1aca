"""How a token looks depending on its probability, with and without colours."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.style import Style
from textual.color import Color

STEPS = (0.9, 0.7, 0.5, 0.2, 0.05)
"""The least probability of each look except the last."""
NAMES = ("≥ 90", "≥ 70", "≥ 50", "≥ 20", "≥ 5", "< 5 %")

TINTS = (
    # colour blended into the background, its share, and a style that marks the step without colour
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
"""For terminals without colours to blend."""


def step(logprob: float) -> int:
    """The index of the look for a log-probability; 0 is the likeliest."""
    share = math.exp(min(0.0, logprob))
    return next((place for place, least in enumerate(STEPS) if share >= least), len(STEPS))


def shades(variables: Mapping[str, str], *, plain: bool) -> tuple[Style, ...]:
    """The look of each step; `plain` if only the terminal's sixteen colours are used, or none."""
    if plain:
        return PLAIN
    colour = {name: Color.parse(variables[name]) for name in ("background", "text", "warning", "error")}
    page, ink = colour["background"], colour["text"].rich_color
    blended = [
        Style(color=ink, bgcolor=page.blend(colour[name], share).rich_color) + mark for name, share, mark in TINTS
    ]
    return (*blended, Style(color=page.rich_color, bgcolor=colour["error"].rich_color, bold=True, underline=True))
