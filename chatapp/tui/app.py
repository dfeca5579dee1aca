"""The Textual app: themes, commands, and the way a model is opened."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme as Palette

import themes
from chatapp.tui.chat_screen import ChatScreen, Mode
from chatapp.tui.opened import Opened
from chatapp.tui.opening import Open, Opening

if TYPE_CHECKING:
    from chatapp.generation import Options


PATIENCE = 2.0
"""Seconds that leaving waits for the model to end what it is computing."""


def peak_memory() -> int:
    """The memory this process has taken; imported late, for the first frame's sake."""
    from chatapp.generation.memory import peak_memory

    return peak_memory()


class ChatApp(App[None]):
    """Chat and completion with a model on this machine."""

    TITLE = "chatapp"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    PAUSE_GC_ON_SCROLL = True
    complaint = ""
    """What was wrong with the settings."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "quit", "Quit", key_display="^Q", priority=True)]

    def __init__(
        self,
        open_engine: Open,
        *,
        model: str = "builtin",
        options: Options | None = None,
        theme: str = "midnight",
        memory: Callable[[], int] = peak_memory,
    ) -> None:
        super().__init__()
        mode: Mode = "completion" if model == "builtin" else "chat"
        self.chat_screen = ChatScreen(open_engine, model=model, mode=mode, options=options, memory=memory)
        strange = set(self.available_themes)
        for ours in themes.load().values():
            self.register_theme(palette(ours))
        known = set(self.available_themes) - strange
        self.theme = theme if theme in known else "midnight"
        if theme not in known:
            names = ", ".join(sorted(known))
            self.complaint = f"there is no theme {theme!r}; choose from {names}"
        for name in strange:
            self.unregister_theme(name)

    def get_default_screen(self) -> Screen[None]:
        return self.chat_screen

    def on_mount(self) -> None:
        self.call_after_refresh(self.collect_garbage)
        if self.complaint:
            self.notify(self.complaint, severity="warning", markup=False)

    @on(Opening.Warned)
    def tell_of_another_backend(self, message: Opening.Warned) -> None:
        self.notify(f"{message.reason}; trying the next best.", severity="warning", timeout=10, markup=False)

    def collect_garbage(self) -> None:
        """From the first frame on; what that needed stays, so the collector need not look at it."""
        gc.freeze()
        gc.enable()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        modes: tuple[tuple[Mode, str], ...] = (
            ("completion", "The model continues your text"),
            ("chat", "The model answers your messages"),
        )
        for mode, does in modes:
            yield SystemCommand(f"Mode: {mode}", does, partial(self.chat_screen.action_mode, mode))
        for name in self.available_themes:
            yield SystemCommand(f"Theme: {name}", "Change the colours", partial(setattr, self, "theme", name))
        wanted = ("Keys", "Screenshot", "Quit")
        yield from (command for command in super().get_system_commands(screen) if command.title in wanted)


def palette(theme: themes.Theme) -> Palette:
    """One of our themes in Textual's terms."""
    return Palette(
        theme.name,
        primary=theme.accent,
        secondary=theme.model,
        accent=theme.accent,
        foreground=theme.text,
        background=theme.background,
        surface=theme.surface,
        panel=theme.panel,
        success=theme.success,
        warning=theme.warning,
        error=theme.error,
        dark=theme.dark,
        variables={
            "text": theme.text,
            "text-muted": theme.muted,
            "muted": theme.muted,
            "model": theme.model,
            "selection": theme.selection,
            "block-cursor-text-style": "none",
            "input-selection-background": theme.selection,
            "footer-background": theme.panel,
            "footer-key-foreground": theme.accent,
            "footer-description-foreground": theme.muted,
            "scrollbar": theme.muted + "55",
            "scrollbar-background": theme.background,
        },
    )


def from_store(model: str) -> Open:
    """What opens a model of the user's store."""

    def open_model(on_progress: Callable[[str, float], None], warn: Callable[[str], None]) -> Opened:
        start = time.perf_counter()
        from chatapp import settings
        from chatapp.selection import Wish, open_engine
        from chatapp.stores import open_store

        store = open_store()
        chosen = settings.read()
        wish = Wish(chosen.backend or None, objective=chosen.objective)
        engine = open_engine(store, model, wish, on_progress=on_progress, on_fallback=warn)
        stored = store.get(model)
        return Opened(engine, stored.name, stored.parameters, time.perf_counter() - start)

    return open_model


def run(model: str = "builtin", options: Options | None = None, *, theme: str = "midnight") -> None:
    """Open the screen with a model of the store and stay until its user leaves."""
    sys.setswitchinterval(0.00005)  # the model's thread waits at most this long for the screen's
    app = ChatApp(from_store(model), model=model, options=options, theme=theme)
    app.run()
    if not app.chat_screen.rest(PATIENCE):
        os._exit(0)  # a runtime that is still computing would abort the interpreter's own way out
