"""The Textual app: themes, keys, commands, and what is done whatever is on the screen."""

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
"""Characters of what is told in passing: errors may quote whole files."""
READ = 20
"""Characters that are read in a second."""
TOGETHER = 1.0
"""Seconds within which what is told stands side by side."""
PATIENCE = 2.0
"""Seconds that leaving waits for the model to end what it is computing."""


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
        """With a model or a setup, in a new conversation; with nothing, where it was left."""
        super().__init__(driver)
        parse_pastes(self.driver_class)
        self.workspace, self.settings = workspace, workspace.read_settings()
        self.keyboard = Keyboard(self)
        self.chosen_keys: dict[str, str] = {}
        """By the ids of actions, the user's own keys."""
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
        """Bind the user's own keys, where there are some."""
        if path.exists():
            from chatapp.settings import keymap

            chosen = keymap.read(path, list_bindable())
            self.chosen_keys, self.vim = dict(chosen.keys), chosen.vim
            self.complaints += chosen.complaints
            self.set_keymap(self.chosen_keys)

    def get_default_screen(self) -> Screen[None]:
        """The conversations, which have the classes of the terminal's size from the first: styled once, not twice."""
        for length, breakpoints in zip(
            self.size, (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS), strict=True
        ):
            self.chat_screen.add_class([name for least, name in breakpoints if length >= least][-1])
        return self.chat_screen

    def refresh_css(self, animate: bool = True) -> None:
        """Style everything with the theme; before there is a screen, its colours are enough for what will be styled."""
        if self.screen_stack:
            with self.batch_update():  # no frame has colours of two themes
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
        """Tell something in passing, in which names and errors may have been written by anyone.

        It stays as long as it takes to read, and `timeout` at most.
        """
        if len(message) > LONGEST_WORD:
            message = f"{message[:LONGEST_WORD]}…"
        if severity != "information":
            message = begin_sentence(message)
        timeout = min(timeout or self.NOTIFICATION_TIMEOUT, 2 + len(message) / READ)
        super().notify(printable(message), title=title, severity=severity, timeout=timeout, markup=markup)

    def on_notify(self, event: Notify) -> None:
        """Show a notification in place of those that said the same, and unless it is an error, of its kind's before."""
        new = event.notification
        for one in list(self._notifications):
            passed = one.severity == new.severity != "error" and new.raised_at > one.raised_at + TOGETHER
            if passed or one.message == new.message:
                self._unnotify(one, refresh=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text, whatever has it, by the first way that works, and say which; ctrl+v here has it at once."""
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
        self.keyboard.wait(events.Key(key, None), first=True)  # it stands for one that came before those that wait

    def on_key(self, event: events.Key) -> None:
        """Vim-like keys move in lists and pages, too, unless they mean something else there."""
        if self.vim and event.key not in self.screen.active_bindings:
            from textual.widgets import Input, TextArea

            from chatapp.tui.widgets.vim import steer

            search = "f3" if self.screen is self.chat_screen else ""
            if not isinstance(self.focused, TextArea | Input) and (key := steer(event, search)):
                self.simulate_key(key)

    def on_mount(self) -> None:
        self.call_after_refresh(self.collect_garbage)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell has written over it
        for complaint in take_untold(self.complaints, self.workspace.home):
            self.notify(complaint, severity="warning", timeout=10, markup=False)

    def collect_garbage(self) -> None:
        """From the first frame on; what that needed stays, so the collector need not look at it."""
        gc.freeze()
        gc.enable()

    def get_key_display(self, binding: Binding) -> str:
        """How a key is written: `^Y` and `F3`, whoever chose it."""
        shown = super().get_key_display(binding)
        return shown.upper() if shown.startswith("^") or shown[1:].isdigit() else shown

    def leave(self) -> None:
        """Leave because the terminal was closed, or somebody wants the process to end: first what was typed is kept."""
        self.chat_screen.keep()
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """Crash, but not over what came while the screen closes, in which nothing can be mounted or found any more."""
        if not (self._exit and isinstance(error, MountError | ScreenStackError)):
            super()._handle_exception(error)

    # Commands

    def action_command_palette(self) -> None:
        """Show every command, those of the place in front first."""
        from chatapp.tui.help.command_palette import CommandPalette

        async def take(command: Command | None) -> None:
            if command:
                self.chat_screen.call_next(command.act)  # whatever screen the palette was over may be gone by then

        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette([*self.commands_here(), *self.commands()]), take)

    def commands_here(self) -> Iterable[Command]:
        """What the keys of the screen in front do; the conversations' are among all commands."""
        from chatapp.tui.help.command_palette import Command

        listed: set[str] = set()  # two keys of one action are two bindings of one id
        for one in self.screen.active_bindings.values() if self.screen is not self.chat_screen else ():
            bound = one.binding
            if not bound.id or bound.id in listed or bound.id.startswith("app."):
                continue
            if one.enabled and bound.description:
                listed.add(bound.id)
                act = partial(self.run_action, bound.action, one.node)
                yield Command(bound.description, "here", self.get_key_display(bound), (bound.id,), act)

    def commands(self) -> Iterable[Command]:
        """Every command, from the table, with the key that its user has for it; then the themes by their names."""
        from chatapp.commands.actions import ACTIONS
        from chatapp.tui.help.command_palette import Command

        for action in ACTIONS:
            yield Command(
                action.title, action.does, self.key_of(action), action.called[1:], partial(self.perform, action)
            )
        for name in self.available_themes:
            yield Command(f"Theme: {name}", "", "", (), partial(self.action_keep_theme, name))

    def key_of(self, action: Action) -> str:
        """The key of an action as it is written, behind the one that opens its place."""
        from chatapp.commands.actions import ACTIONS

        key = self.chosen_keys.get(action.id, action.key).split(",")[0]
        shown = self.get_key_display(Binding(key, "", "")) if len(key) > 1 else key
        place = next((one for one in ACTIONS if action.within and one.id == action.within), None)
        return f"{self.key_of(place)} {shown}" if place else shown

    async def perform(self, action: Action) -> None:
        """Do what a command says, in the conversation that is shown."""
        while self.screen is not self.chat_screen:
            self.pop_screen()
        owner, _, name = action.action.partition(".")
        target = {"app": self, "screen": self.chat_screen, "box": self.chat_screen.pane.box}[owner]
        with telling(self):
            if not await self.run_action(name, target):
                self.notify(f"{action.title}: not possible here and now.", markup=False)

    def action_help(self) -> None:
        """Show every key that works here."""
        from chatapp.tui.help.help import Help, sections

        if not isinstance(self.screen, Help):
            self.push_screen(Help(sections(self.screen, self.chosen_keys), str(self.workspace.home / "keys.toml")))

    def action_theme(self) -> None:
        """Choose the colours by looking at them."""
        from chatapp.tui.help.theme_picker import ThemePicker

        if not isinstance(self.screen, ThemePicker):
            self.push_screen(ThemePicker(self.palettes.values()), self.action_keep_theme)

    def action_keep_theme(self, name: str | None) -> None:
        """Change the colours, for the next start too."""
        if name:
            from chatapp.settings.settings import SettingsError

            self.theme = name
            try:
                self.workspace.choose_theme(name)
            except SettingsError as error:
                self.notify(str(error), severity="warning", timeout=10, markup=False)

    def action_suspend_process(self) -> None:
        """Go to the shell, which brings the app back with `fg`."""
        can = self._driver is not None and self._driver.can_suspend and os.name != "nt"
        if not can or os.getpgrp() == os.getsid(0):  # without a shell nobody would wake it again
            return self.notify("There is no shell here to go to: chatapp was not started from one.")
        self.app_suspend_signal.publish(self)
        os.killpg(os.getpgrp(), signal.SIGTSTP)  # with what started it, such as uv run, so that the shell sees it

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
"""The modules whose screens and widgets have keys with ids."""


def list_bindable() -> list[Bindable]:
    """List the actions with an id of all screens and widgets, which it imports: a user's own keys are bound to them."""
    from chatapp.tui.help.help import actions

    modules = [import_module(f"chatapp.tui.{name}") for name in WITH_KEYS]
    kinds = [kind for one in modules for kind in vars(one).values() if getattr(kind, "__module__", "") == one.__name__]
    return actions(*(kind for kind in kinds if getattr(kind, "BINDINGS", None)))


def run(app: ChatApp) -> None:
    """Open the screen and stay until its user leaves, or its terminal is closed."""
    leave_on_signals(app, app.leave, lambda: app.chat_screen.keeper)
    sys.setswitchinterval(0.00005)  # the model's thread waits at most this long for the screen's
    app.run()
    rested = app.chat_screen.rest(PATIENCE)
    if unsaved := app.chat_screen.save_or_rescue():
        print(printable(unsaved), file=sys.stderr, flush=True)
    if not rested:
        os._exit(0)  # a runtime that is still computing would abort the interpreter's own way out
    if app.chat_screen.history:
        app.chat_screen.engines.write_states(app.chat_screen.history)
        app.chat_screen.history.close()  # its file then has everything, and can be copied by itself
