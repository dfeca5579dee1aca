"""The Textual app: themes, keys, commands, and what is done whatever is on the screen."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events, work
from textual.app import App, SuspendNotSupported, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen

import themes
from chatapp.terminal import printable
from chatapp.tui.chat.screen import ChatScreen
from chatapp.tui.guard import GUARD
from chatapp.tui.palette import palette
from chatapp.tui.start import Start
from chatapp.tui.telling import telling

if TYPE_CHECKING:
    from chatapp.history import Kind
    from chatapp.tui.prompt import Prompt

LONGEST_WORD = 1_000
"""Characters of what is told in passing: errors may quote whole files."""
PATIENCE = 2.0
"""Seconds that leaving waits for the model to end what it is computing."""


class ChatApp(App[None]):
    """Chat and completion with models on this machine."""

    TITLE = "chatapp"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    PAUSE_GC_ON_SCROLL = True
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Quit", key_display="^Q", priority=True, id="app.quit"),
        Binding("f1", "help", "Help", id="app.help"),
        Binding("f2", "theme", "Theme", show=False, id="app.theme"),
    ]

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.start = start
        self.chosen_keys: dict[str, str] = {}
        """By the ids of actions, the user's own keys."""
        self.vim = False
        strange = set(self.available_themes)
        self.palettes, self.complaints = themes.collect(start.home / "themes")
        for ours in self.palettes.values():
            self.register_theme(palette(ours))
        self.theme = start.theme if start.theme in self.palettes else "midnight"
        if start.theme not in self.palettes:
            self.complaints.append(f"there is no theme {start.theme!r}; choose from {', '.join(self.palettes)}")
        for name in strange - self.palettes.keys():
            self.unregister_theme(name)
        self.take_keys(start.home / "keys.toml")
        self.chat_screen = ChatScreen(start)

    def take_keys(self, path: Path) -> None:
        """Bind the user's own keys, where there are some."""
        if path.exists():
            from chatapp import keymap
            from chatapp.tui.comfort.bound import everything

            chosen = keymap.read(path, everything())
            self.chosen_keys, self.vim = dict(chosen.keys), chosen.vim
            self.complaints += chosen.complaints
            self.set_keymap(self.chosen_keys)

    def get_default_screen(self) -> Screen[None]:
        return self.chat_screen

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [GUARD, *super().get_line_filters()]

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: Literal["information", "warning", "error"] = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Tell something in passing, in which names and errors may have been written by anyone."""
        if len(message) > LONGEST_WORD:
            message = f"{message[:LONGEST_WORD]}…"
        super().notify(printable(message), title=title, severity=severity, timeout=timeout, markup=markup)

    def on_key(self, event: events.Key) -> None:
        """Vim-like keys move in lists and pages, too, unless they mean something else there."""
        if self.vim and event.key not in self.screen.active_bindings:
            from textual.widgets import Input, TextArea

            from chatapp.tui.comfort.vim import steer

            search = "f3" if self.screen is self.chat_screen else ""
            if not isinstance(self.focused, TextArea | Input) and (key := steer(event, search)):
                self.simulate_key(key)

    def on_mount(self) -> None:
        self.call_after_refresh(self.collect_garbage)
        for complaint in self.complaints:
            self.notify(complaint, severity="warning", timeout=10, markup=False)

    def collect_garbage(self) -> None:
        """From the first frame on; what that needed stays, so the collector need not look at it."""
        gc.freeze()
        gc.enable()

    def get_key_display(self, binding: Binding) -> str:
        """How a key is written: `^Y` and `F3`, whoever chose it."""
        shown = super().get_key_display(binding)
        return shown.upper() if shown.startswith("^") or shown[1:].isdigit() else shown

    # Commands

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        chat = self.chat_screen
        kinds: tuple[tuple[Kind, str], ...] = (
            ("completion", "The model continues your text"),
            ("chat", "The model answers your messages"),
        )
        for kind, does in kinds:
            yield SystemCommand(f"Mode: {kind}", does, partial(chat.action_kind, kind))
        commands: tuple[tuple[str, str, Callable[[], object]], ...] = (
            ("Models", "Choose, fetch, check, time or remove one", chat.action_models),
            ("Compare models", "The same prompt for several models or backends", chat.action_compare),
            ("Conversations: list", "Open, rename, delete or export one", chat.action_sidebar),
            ("Conversations: search", "Find words in all of them", chat.action_search),
            ("Conversations: import", "Ours, ChatGPT's or Ollama's", chat.action_import),
            ("Sampling", "Temperature and the rest, with a preview of the next token", chat.action_sampling),
            ("Sampling: presets", "Options saved by name", chat.action_presets),
            ("System prompt", "What all answers are to keep to", chat.action_system),
            ("Tokens", "How sure the model was of each, and what else it might have said", chat.action_heat),
            ("Latencies", "Of every token of the last answer", chat.action_latencies),
            ("Help", "All keys and commands", self.action_help),
            ("Theme", "Choose by looking", self.action_theme),
        )
        for title, does, act in commands:
            yield SystemCommand(title, does, act)
        for n in range(2, 10):
            yield SystemCommand(f"Answers: {n} at once", "Side by side, to keep one", partial(chat.action_several, n))
        for name in self.available_themes:
            yield SystemCommand(f"Theme: {name}", "Change the colours", partial(self.keep_theme, name))
        wanted = ("Screenshot", "Quit")
        yield from (command for command in super().get_system_commands(screen) if command.title in wanted)

    def action_help(self) -> None:
        """Show every key that works here."""
        from chatapp.tui.comfort.help import Help, sections

        if not isinstance(self.screen, Help):
            self.push_screen(Help(sections(self.screen, self.chosen_keys), str(self.start.home / "keys.toml")))

    def action_theme(self) -> None:
        """Choose the colours by looking at them."""
        from chatapp.tui.comfort.theme_picker import ThemePicker

        if not isinstance(self.screen, ThemePicker):
            self.push_screen(ThemePicker(self.palettes.values()), self.keep_theme)

    def action_keep_theme(self, name: str) -> None:
        if name in self.palettes:
            self.keep_theme(name)
        else:
            self.notify(f"there is no theme {name!r}; choose from {', '.join(self.palettes)}", markup=False)

    def keep_theme(self, name: str | None) -> None:
        """Change the colours, for the next start too."""
        if name:
            from chatapp.settings import SettingsError

            self.theme = name
            try:
                self.start.choose_theme(name)
            except SettingsError as error:
                self.notify(str(error), severity="warning", timeout=10, markup=False)

    # What any screen may ask for

    def on_prompt_editor_wanted(self, message: Prompt.EditorWanted) -> None:
        """Let the user write in an editor; the screen comes back when that ends."""
        from chatapp import editor

        try:
            with self.suspend(), telling(self):  # the terminal comes back only where nothing is raised out of here
                message.prompt.draft = editor.edit(message.draft)
        except SuspendNotSupported:
            self.notify("Here no editor can take the terminal's place.", severity="warning")

    @work(thread=True, group="copy")
    def copy(self, text: str) -> None:
        """Copy a text by the first way that works, and say which."""
        from chatapp import clipboard

        def osc52(text: str) -> None:
            self.call_from_thread(self.copy_to_clipboard, text)

        with telling(self):
            self.notify(str(clipboard.copy(text, osc52, self.start.home)), markup=False)


def run(start: Start) -> None:
    """Open the screen and stay until its user leaves."""
    sys.setswitchinterval(0.00005)  # the model's thread waits at most this long for the screen's
    app = ChatApp(start)
    app.run()
    rested = app.chat_screen.rest(PATIENCE)
    from chatapp.tui.chat.leaving import save_or_rescue

    if unsaved := save_or_rescue(app.chat_screen):
        print(printable(unsaved), file=sys.stderr, flush=True)
    if not rested:
        os._exit(0)  # a runtime that is still computing would abort the interpreter's own way out
