"""One option as a line: the cursor, its label, its slider, its value, and whether that was changed."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from chatapp.text.printable import printable
from chatapp.tui.sampling.fields import Field

LABEL, VALUE = 13, 8
"""Columns of the label, with the cursor before it, and of the value."""


def slider(width: int) -> int:
    """Columns of the slider in a line of this width: there is room for a space and a mark."""
    return max(2, width - LABEL - VALUE - 2)


def row(field: Field, value: Any, width: int, *, changed: bool, here: bool, typed: str | None) -> Content:
    """The line; `typed` is what takes the value's place while it is typed."""
    colour = "$text" if changed or here else "$muted"
    shown = Content(printable(field.show(value) if typed is None else f"{typed}▏"))
    track = knob(field.share(value), slider(width), changed=changed, here=here) if field.slides else Content()
    room = max(0, width - LABEL - track.cell_length - 1)
    shown = shown.truncate(room, ellipsis=True)
    line = Content.assemble(
        ("▸" if here else " ", "$accent"),
        (field.label.ljust(LABEL - 1), colour),
        track,
        " " * (room - shown.cell_length),
        shown.stylize("bold" if changed else "").stylize(colour),
        ("•" if changed else " ", "$warning"),
    )
    return line.stylize("on $selection") if here else line


def knob(share: float, columns: int, *, changed: bool, here: bool) -> Content:
    """A slider at its place."""
    left = round(share * (columns - 1))
    return Content.assemble(
        ("━" * left, "$accent" if changed else "$muted"),
        ("●", "$accent" if changed or here else "$text"),
        ("─" * (columns - 1 - left), "$muted 40%"),
    )
