"""Pictures of the screen as small SVG files: rows of characters with their colours, which any browser shows."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from itertools import chain, groupby
from typing import Self

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from textual._compositor import LayoutUpdate
from textual.app import App

WIDTH, HEIGHT = 10, 20
"""Of a character; a font of 16.7 pixels has this width."""


@dataclass(frozen=True)
class Look:
    """How a character is painted."""

    front: str
    back: str
    more: str

    @classmethod
    def of(cls, style: Style) -> Self:
        """What is seen of a style: not what clicks mean."""
        front = style.color.get_truecolor(DIMMED_MONOKAI).hex if style.color else "#d9d9d9"
        back = style.bgcolor.get_truecolor(DIMMED_MONOKAI, foreground=False).hex if style.bgcolor else "#0c0c0c"
        rules = {
            "font-weight:bold": style.bold,
            "font-style:italic": style.italic,
            "opacity:.6": style.dim,
            "text-decoration:underline": style.underline,
            "text-decoration:line-through": style.strike,
        }
        more = "".join(f";{rule}" for rule, holds in rules.items() if holds)
        return cls(back, front, more) if style.reverse else cls(front, back, more)


def picture(app: App[None]) -> str:
    """What is on the screen now."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    assert isinstance(update, LayoutUpdate)
    names: dict[str, str] = {}
    areas: dict[str, str] = {}
    texts = [painted(y, chain.from_iterable(strips), names, areas) for y, strips in enumerate(update.strips)]
    sheet = "".join(f".{name}{{fill:{rule}}}" for rule, name in names.items())
    width, height = app.size.width * WIDTH, app.size.height * HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" xml:space="preserve">',
            f"<style>text{{font:16.7px monospace;white-space:pre}}{sheet}</style>",
            *(f'<path fill="{colour}" d="{area}"/>' for colour, area in areas.items()),
            *filter(None, texts),
            "</svg>\n",
        ]
    )


def painted(y: int, segments: Iterable[Segment], names: dict[str, str], areas: dict[str, str]) -> str:
    """A row: its text, while `areas` grow with what lies behind it, and `names` with how it looks."""
    x, parts = 0, []
    for back, run in groupby(((Look.of(one.style or Style()), one.text) for one in segments), lambda one: one[0].back):
        begin = x
        for look, pieces in groupby(run, lambda one: one[0]):
            text = "".join(text for _, text in pieces)
            if words := text.strip():
                start, length = x + len(text) - len(text.lstrip()), cell_len(words)
                name = names.setdefault(f"{look.front}{look.more}", f"c{len(names)}")
                stretch = f' textLength="{length * WIDTH}"' if length > 1 else ""
                parts.append(f'<tspan class="{name}" x="{start * WIDTH}"{stretch}>{escape(words, False)}</tspan>')
            x += cell_len(text)
        areas[back] = (
            areas.get(back, "") + f"M{begin * WIDTH} {y * HEIGHT}h{(x - begin) * WIDTH}v{HEIGHT}H{begin * WIDTH}"
        )
    return f'<text y="{y * HEIGHT + 15}">{"".join(parts)}</text>' if parts else ""
