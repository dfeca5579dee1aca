"""The Textual app: themes, keys, commands, and everything that does not depend on the screen shown."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events
from textual.app import App, ScreenStackError
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.notifications import Notify
from textual.screen import Screen
from textual.widget import MountError

import themes
from chatapp.text.errors import begin_sentence
from chatapp.text.printable import printable
from chatapp.tui.chat.screen import ChatScreen
from chatapp.tui.errors import telling
from chatapp.tui.keys.bindings import bindings
from chatapp.tui.keys.complaints import take_untold
from chatapp.tui.keys.keyboard import Keyboard
from chatapp.tui.keys.paste_parser import parse_pastes
from chatapp.tui.signals import leave_on_signals
from chatapp.tui.theme import palette
from chatapp.tui.widgets.guard import GUARD
from chatapp.workspace import Workspace

if TYPE_CHECKING:
    from textual.driver import Driver

    from chatapp.commands.commands import Action
    from chatapp.conversation import Setup
    from chatapp.settings.keymap import Action as Bindable
    from chatapp.tui.help.command_palette import Command

LONGEST_WORD = 1_000
"""Maximum characters of a notification: errors may quote whole files."""
READ = 20
"""Characters read per second."""
TOGETHER = 1.0
"""Notifications raised within this many seconds are shown together."""
PATIENCE = 2.0
"""Seconds that leaving waits for the model to finish its current computation."""


class ChatApp(App[None]):
    """Chat and completion with models on this machine."""

    TITLE = "chatapp"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    PAUSE_GC_ON_SCROLL = True
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(
        self,
        workspace: Workspace,
        *,
        model: str = "",
        setup: Setup | None = None,
        driver: type[Driver] | None = None,
    ) -> None:
        """Start a new conversation if a model or setup is given, otherwise resume the last one."""
        super().__init__(driver)
        self.stylesheet.reparse = self.stylesheet.parse  # type: ignore[method-assign]  # keeps what is parsed already
        parse_pastes(self.driver_class)
        self.workspace, self.settings = workspace, workspace.read_settings()
        self.keyboard = Keyboard(self)
        self.chosen_keys: dict[str, str] = {}
        """The user's own keys, by action id."""
        self.vim = False
        strange = set(self.available_themes)
        self.palettes, self.complaints = themes.collect(workspace.home / "themes")
        for ours in self.palettes.values():
            self.register_theme(palette(ours))
        wanted = self.settings.theme or "midnight"
        self.theme = wanted if wanted in self.palettes else "midnight"
        if wanted not in self.palettes:
            self.complaints.append(f"there is no theme {wanted!r}; choose from {', '.join(self.palettes)}")
        for name in strange - self.palettes.keys():
            self.unregister_theme(name)
        self.take_keys(workspace.home / "keys.toml")
        resumes = not model and not setup
        self.chat_screen = ChatScreen(workspace, model or self.settings.model, setup=setup, resumes=resumes)

    def take_keys(self, path: Path) -> None:
        """Apply the user's keys.toml, if there is one."""
        if path.exists():
            from chatapp.settings import keymap

            chosen = keymap.read(path, list_bindable())
            self.chosen_keys, self.vim = dict(chosen.keys), chosen.vim
            self.complaints += chosen.complaints
            self.set_keymap(self.chosen_keys)

    def get_default_screen(self) -> Screen[None]:
        """The chat screen, with the classes for the terminal's size already set, so that it is styled only once."""
        for length, breakpoints in zip(
            self.size, (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS), strict=True
        ):
            self.chat_screen.add_class([name for least, name in breakpoints if length >= least][-1])
        return self.chat_screen

    def refresh_css(self, animate: bool = True) -> None:
        """Restyle for the theme; before there is a screen, setting the variables is enough."""
        if self.screen_stack:
            with self.batch_update():  # never paint a frame with the colours of two themes
                super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

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
        """Show a notification for as long as it takes to read, at most `timeout`.

        Control characters are replaced, since names and errors may be foreign.
        """
        if len(message) > LONGEST_WORD:
            message = f"{message[:LONGEST_WORD]}…"
        if severity != "information":
            message = begin_sentence(message)
        timeout = min(timeout or self.NOTIFICATION_TIMEOUT, 2 + len(message) / READ)
        super().notify(printable(message), title=title, severity=severity, timeout=timeout, markup=markup)

    def on_notify(self, event: Notify) -> None:
        """Show a notification; it replaces equal ones, and older ones of its severity unless they are errors."""
        new = event.notification
        for one in list(self._notifications):
            passed = one.severity == new.severity != "error" and new.raised_at > one.raised_at + TOGETHER
            if passed or one.message == new.message:
                self._unnotify(one, refresh=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text to the clipboard by the first way that works, and say which it was."""
        from chatapp.text import clipboard

        def copy() -> None:
            osc52 = partial(self.call_from_thread, super(ChatApp, self).copy_to_clipboard)
            with telling(self):
                self.notify(str(clipboard.copy(text, osc52, self.workspace.home)), markup=False)

        self._clipboard = text
        self.run_worker(copy, thread=True, group="copy")

    # Keys

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded and not self.keyboard.passes(event):
            return
        await super().on_event(event)

    def simulate_key(self, key: str) -> None:
        self.keyboard.wait(events.Key(key, None), first=True)  # it replaces a key that came before the waiting ones

    def on_key(self, event: events.Key) -> None:
        """Vim keys also move in lists and pages, unless they are bound there."""
        if self.vim and event.key not in self.screen.active_bindings:
            from textual.widgets import Input, TextArea

            from chatapp.tui.widgets.vim import steer

            search = "f3" if self.screen is self.chat_screen else ""
            if not isinstance(self.focused, TextArea | Input) and (key := steer(event, search)):
                self.simulate_key(key)

    def on_mount(self) -> None:
        self.call_after_refresh(self.collect_garbage)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell overwrote the screen
        for complaint in take_untold(self.complaints, self.workspace.home):
            self.notify(complaint, severity="warning", timeout=10, markup=False)

    def collect_garbage(self) -> None:
        """Enable the garbage collector after the first frame, exempting what exists by then."""
        gc.freeze()
        gc.enable()

    def get_key_display(self, binding: Binding) -> str:
        """A key as it is shown: `^Y`, `F3`."""
        shown = super().get_key_display(binding)
        return shown.upper() if shown.startswith("^") or shown[1:].isdigit() else shown

    def leave(self) -> None:
        """Leave because the terminal was closed or a signal arrived, keeping what was typed."""
        self.chat_screen.keep()
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """Ignore errors of mounting and screens while the app closes; crash on any other."""
        if not (self._exit and isinstance(error, MountError | ScreenStackError)):
            super()._handle_exception(error)

    # Commands

    def action_command_palette(self) -> None:
        """Open the palette: the commands of the current screen first, then all others."""
        from chatapp.tui.help.command_palette import CommandPalette

        async def take(command: Command | None) -> None:
            if command:
                self.chat_screen.call_next(command.act)  # the screen below the palette may be gone by then

        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette([*self.commands_here(), *self.commands()]), take)

    def commands_here(self) -> Iterable[Command]:
        """Commands for the key bindings of the current screen, unless it is the chat screen."""
        from chatapp.tui.help.command_palette import Command

        listed: set[str] = set()  # an action with two keys has two bindings with one id
        for one in self.screen.active_bindings.values() if self.screen is not self.chat_screen else ():
            bound = one.binding
            if not bound.id or bound.id in listed or bound.id.startswith("app."):
                continue
            if one.enabled and bound.description:
                listed.add(bound.id)
                act = partial(self.run_action, bound.action, one.node)
                yield Command(bound.description, "here", self.get_key_display(bound), (bound.id,), act)

    def commands(self) -> Iterable[Command]:
        """All commands of the table with the user's keys, then one for each theme."""
        from chatapp.commands.actions import ACTIONS
        from chatapp.tui.help.command_palette import Command

        for action in ACTIONS:
            yield Command(
                action.title, action.does, self.key_of(action), action.called[1:], partial(self.perform, action)
            )
        for name in self.available_themes:
            yield Command(f"Theme: {name}", "", "", (), partial(self.action_keep_theme, name))

    def key_of(self, action: Action) -> str:
        """The key of an action as it is shown, after the key that opens its place."""
        from chatapp.commands.actions import ACTIONS

        key = self.chosen_keys.get(action.id, action.key).split(",")[0]
        shown = self.get_key_display(Binding(key, "", "")) if len(key) > 1 else key
        place = next((one for one in ACTIONS if action.within and one.id == action.within), None)
        return f"{self.key_of(place)} {shown}" if place else shown

    async def perform(self, action: Action) -> None:
        """Run an action in the conversation that is shown."""
        while self.screen is not self.chat_screen:
            self.pop_screen()
        owner, _, name = action.action.partition(".")
        target = {"app": self, "screen": self.chat_screen, "box": self.chat_screen.pane.box}[owner]
        with telling(self):
            if not await self.run_action(name, target):
                self.notify(f"{action.title}: not possible right now.", markup=False)

    def action_help(self) -> None:
        """Show the keys of the current screen."""
        from chatapp.tui.help.help import Help, sections

        if not isinstance(self.screen, Help):
            self.push_screen(Help(sections(self.screen, self.chosen_keys), str(self.workspace.home / "keys.toml")))

    def action_theme(self) -> None:
        """Open the theme picker."""
        from chatapp.tui.help.theme_picker import ThemePicker

        if not isinstance(self.screen, ThemePicker):
            self.push_screen(ThemePicker(self.palettes.values()), self.action_keep_theme)

    def action_keep_theme(self, name: str | None) -> None:
        """Change the theme and save it."""
        if name:
            from chatapp.settings.settings import SettingsError

            self.theme = name
            try:
                self.workspace.choose_theme(name)
            except SettingsError as error:
                self.notify(str(error), severity="warning", timeout=10, markup=False)

    def action_suspend_process(self) -> None:
        """Suspend to the shell; `fg` resumes."""
        can = self._driver is not None and self._driver.can_suspend and os.name != "nt"
        if not can or os.getpgrp() == os.getsid(0):  # without a shell nothing could resume it
            return self.notify("Cannot suspend: chatapp was not started from a shell.")
        self.app_suspend_signal.publish(self)
        os.killpg(os.getpgrp(), signal.SIGTSTP)  # the group, so that a parent such as `uv run` stops as well

    def on_vim_area_suspend_wanted(self) -> None:
        if self.settings.suspend:
            self.action_suspend_process()


WITH_KEYS = (
    *("app", "chat.screen", "chat.sidebar", "chat.message", "prompt.prompt", "chat.completion_page", "chat.calls"),
    *("chat.search", "answers.columns", "answers.comparison", "answers.picker", "models.screen", "widgets.windows"),
    *("insight.heat", "insight.text", "insight.latencies", "insight.table", "insight.beams", "help.help"),
    *("help.theme_picker", "sampling.drawer", "sampling.lines_screen", "sampling.preset_picker"),
    "sampling.system_prompt_screen",
)
"""Modules whose screens and widgets have bindings with ids."""


def list_bindable() -> list[Bindable]:
    """All actions that the user can bind keys to; imports every module that has some."""
    from chatapp.tui.help.help import actions

    modules = [import_module(f"chatapp.tui.{name}") for name in WITH_KEYS]
    kinds = [kind for one in modules for kind in vars(one).values() if getattr(kind, "__module__", "") == one.__name__]
    return actions(*(kind for kind in kinds if getattr(kind, "BINDINGS", None)))


def run(app: ChatApp) -> None:
    """Run the app until the user leaves or the terminal is closed."""
    leave_on_signals(app, app.leave, lambda: app.chat_screen.history_thread)
    sys.setswitchinterval(0.00005)  # the model's thread should not wait longer for the screen's thread
    app.run()
    rested = app.chat_screen.shut_down(PATIENCE)
    if unsaved := app.chat_screen.save_or_rescue():
        print(printable(unsaved), file=sys.stderr, flush=True)
    if not rested:
        os._exit(0)  # a runtime that is still computing would crash during Python's shutdown
    if app.chat_screen.history:
        app.chat_screen.engines.write_states(app.chat_screen.history)
        app.chat_screen.history.close()  # merges SQLite's log, so that the file can be copied by itself
