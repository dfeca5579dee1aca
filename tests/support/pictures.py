"""Pictures of the screen as text: its rows, a letter below each character for its look, and what the letters mean."""

import re
from functools import cache
from itertools import chain
from string import ascii_letters, digits

from rich.cells import cell_len
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from textual._compositor import LayoutUpdate
from textual.app import App

CLOCK = re.compile(r"\b\d\d:\d\d\b")
"""The time of day, which pictures do not keep."""
LETTERS = ascii_letters + digits + "".join(map(chr, range(0xC0, 0x180)))
"""For the looks, in the order in which they appear; the commonest look has a point instead."""


@cache
def look(style: Style) -> str:
    """What is seen of a style, in words: its colours and attributes, not what clicks mean."""
    front = style.color.get_truecolor(DIMMED_MONOKAI).hex if style.color else "default"
    back = style.bgcolor.get_truecolor(DIMMED_MONOKAI, foreground=False).hex if style.bgcolor else "default"
    if style.reverse:
        front, back = back, front
    attributes = ("bold", "italic", "dim", "underline", "strike")
    return " ".join([f"{front} on {back}", *(name for name in attributes if getattr(style, name))])


def picture(app: App[None]) -> str:
    """What is on the screen now: rows, looks, legend."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    assert isinstance(update, LayoutUpdate)
    rows, looks = [], []
    for strips in update.strips:
        segments = list(chain.from_iterable(strips))
        rows.append(CLOCK.sub("12:34", "".join(segment.text for segment in segments).rstrip()))
        looks.append([look(one.style or Style()) for one in segments for _ in range(cell_len(one.text))])
    cells = list(chain.from_iterable(looks))
    common = max(set(cells), key=cells.count)
    letters = {common: "."} | dict(zip((one for one in dict.fromkeys(cells) if one != common), LETTERS, strict=False))
    painted = ["".join(letters[one] for one in row).rstrip(".") for row in looks]
    legend = [f"{letter} {name}" for name, letter in letters.items()]
    return "\n".join([*rows, "", *painted, "", *legend, ""])
