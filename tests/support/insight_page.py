"""What shows tokens, on a page of its own: its host, tokens of every probability, and what is seen."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.widget import Widget

import themes
from chatapp.generation.delta import Alternative, Token
from chatapp.tui.theme import palette
from support.scripted_engine import ANSWER, pieces
from support.themed_app import ThemedApp

SHARES = (0.95, 0.8, 0.6, 0.3, 0.1, 0.01)
"""A probability for each look."""


def token(text: str, share: float | None = 0.95, number: int = 0, seconds: float = 0.0125) -> Token:
    if share is None:
        return Token(number, text, None, (), seconds)
    others = [
        (number, text, share),
        (901, " other", 0.03),
        (902, "\x1b[2J", 0.01),
        (903, "\n", 0.005),
        (904, "日本", 0.001),
    ]
    return Token(number, text, math.log(share), tuple(Alternative(i, t, math.log(p)) for i, t, p in others), seconds)


def tokens(text: str = ANSWER, repeat: int = 1) -> list[Token]:
    found = pieces(text * repeat)
    return [token(one, SHARES[i % len(SHARES)], i, 0.0125 + 0.001 * (i % 7)) for i, one in enumerate(found)]


class Host(ThemedApp):
    """Our themes around one widget, or below one screen."""

    def __init__(self, content: Widget, theme: str) -> None:
        super().__init__()
        self.content = content
        self.posted: list[tuple[Token, ...] | None] = []
        sixteen = palette(themes.load()["midnight"])
        sixteen.name, sixteen.ansi = "sixteen", True
        sixteen.background = sixteen.surface = sixteen.panel = sixteen.foreground = "ansi_default"
        sixteen.primary = sixteen.accent = "ansi_blue"
        sixteen.success, sixteen.warning, sixteen.error = "ansi_green", "ansi_yellow", "ansi_red"
        sixteen.variables |= BUILTIN_THEMES["ansi-dark"].variables
        sixteen.variables |= {"text": "ansi_default", "selection": "ansi_blue"}
        sixteen.variables |= dict.fromkeys(("muted", "text-muted", "scrollbar"), "ansi_bright_black")
        self.register_theme(sixteen)
        self.theme = theme

    def compose(self) -> ComposeResult:
        if not isinstance(self.content, Screen):
            yield self.content

    def on_mount(self) -> None:
        if isinstance(self.content, Screen):
            self.push_screen(self.content, self.posted.append)
        else:
            self.content.focus()


@asynccontextmanager
async def shown(
    content: Widget, size: tuple[int, int] = (80, 24), theme: str = "midnight"
) -> AsyncIterator[tuple[Host, Pilot[None]]]:
    app = Host(content, theme)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield app, pilot


def seen(widget: Widget) -> list[str]:
    """What a widget shows, line by line."""
    lines = widget.render_lines(widget.outer_size.region)
    assert {line.cell_length for line in lines} == {widget.outer_size.width}
    return [line.text.rstrip() for line in lines]


def whole(app: App[None]) -> str:
    """All that is on the screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())
