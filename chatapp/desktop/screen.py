"""The app in a process of its own, drawn by a page: Textual's web driver, and what only a window can tell or ask."""

import asyncio
import gc
import os
import sys
from functools import partial
from typing import Any, ClassVar, Literal

from textual import events, messages
from textual.app import App
from textual.binding import Binding, BindingType
from textual.drivers.web_driver import WebDriver
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Static

from chatapp.conversation.attachments import mention
from chatapp.settings import offline
from chatapp.text.printable import printable
from chatapp.tui.app import ChatApp, run
from chatapp.tui.prompt.prompt import Prompt
from chatapp.tui.widgets.windows import Window
from chatapp.workspace import Workspace

LOOK = 0.5
"""Seconds between two looks at whether something is being done."""
SYSTEM_THEMES = {True: "midnight", False: "paper"}
"""The themes of a dark system and of a light one, for users who have chosen none."""
MODES = "\x1b[?1049h\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h\x1b[?25l\x1b[?2004h"
"""What a terminal is told at the start: the other screen, the mouse, no cursor, pastes in brackets."""


class WindowDriver(WebDriver):
    """Textual's web driver, on an output that nobody else prints to, and with messages of the window's own."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        sys.stdout.flush()
        output = os.dup(1)
        os.dup2(2, 1)  # runtimes print, too
        self._write = partial(write_all, output)

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        if packet_type == "resize" and self._app._loop:
            columns, rows = payload["width"], payload["height"]
            assert isinstance(columns, int) and isinstance(rows, int)
            self._size, size = (columns, rows), Size(columns, rows)
            self.send_message(events.Resize(size, size))  # as the first size, which it would overtake otherwise
            # A size that is as before by now has moved what the page shows all the same.
            self._app.call_later(partial(self._app.refresh, layout=True))
        elif packet_type in ("close", "drop", "lost", "repaint", "scheme"):
            self._app.call_later(self._app.hear, packet_type, payload)  # type: ignore[attr-defined]  # a WindowApp
        else:
            super().on_meta(packet_type, payload)

    def send_message(self, message: Message) -> None:
        """Let the app have a message from the thread that reads, unless it has ended."""
        posted = self._app._post_message(message)
        try:
            asyncio.run_coroutine_threadsafe(posted, self._loop)
        except RuntimeError:  # its loop is closed
            posted.close()

    def run_input_thread(self) -> None:
        """Read until the window is gone, whose end is the app's: with all that it saves then."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())


class WindowApp(ChatApp):
    """The app in a window, which tells the window what it cannot see, and does what the window asks."""

    busy = False
    """What the window was told last: whether something is being done."""

    def on_mount(self) -> None:
        super().on_mount()
        self.theme_changed_signal.subscribe(self, lambda _: self.tell_colours())
        self.tell_colours()
        self.set_interval(LOOK, self.tell_busy)

    def tell(self, kind: str, **facts: object) -> None:
        """Tell the window something."""
        if isinstance(self._driver, WindowDriver):
            self._driver.write_meta({"type": kind, **facts})

    def tell_colours(self) -> None:
        """Let the window around the screen have its colours."""
        colours = self.palettes[self.theme]
        if not colours.ansi:
            self.tell("colours", background=colours.background, text=colours.text)

    @property
    def working(self) -> list[str]:
        """What is being done that leaving would cut off, in words."""
        answers = sum(1 for pane in self.chat_screen.panes if pane.reply)
        jobs = [f"{job.kind} {job.name}" for job in self.chat_screen.models.jobs.all() if not job.ended]
        return ["an answer is being written"] * bool(answers) + jobs

    def tell_busy(self) -> None:
        """Tell the window when something begins, and when nothing is done any more."""
        if self.busy != (busy := bool(self.working)):
            self.busy = busy
            self.tell("busy", busy=busy)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: Literal["information", "warning", "error"] = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Tell something in passing; to somebody who looks elsewhere, by the system's own notification."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)
        if not self.app_focus:
            self.tell("announce", text=printable(message[:300]))

    def hear(self, kind: str, payload: dict[str, Any]) -> None:  # Any: parsed JSON
        """Do what the window asks."""
        match kind:
            case "scheme" if not self.workspace.read_settings().theme:
                self.theme = SYSTEM_THEMES[payload["dark"]]
            case "drop":
                box, named = self.chat_screen.pane.box, mention(payload["path"])
                box.insert_apart(named) if isinstance(box, Prompt) else box.insert(f"{named} ")
                box.focus()
            case "lost":
                self.notify(payload["text"], severity="error")
            case "repaint":
                assert self._driver
                self._driver.write(MODES)
                self.tell_colours()
                self.tell("busy", busy=self.busy)
                self.refresh(layout=True)
            case "close":
                self.close()

    def close(self) -> None:
        """Leave; where something is being done, ask first, and take a second wish for the answer."""
        if not (working := self.working) or isinstance(self.screen, LeaveScreen):
            self.exit()
        else:
            self.push_screen(LeaveScreen(working), lambda leaves: self.exit() if leaves else None)


class LeaveScreen(Window[bool]):
    """Dismisses with whether to leave although something is being done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "dismiss(True)", "Leave", id="leave.leave"),
        Binding("escape,n", "dismiss(False)", "Stay", id="leave.stay"),
    ]

    def __init__(self, working: list[str]) -> None:
        text = Static("\n".join(working), markup=False)
        super().__init__("Leave now?", text, "enter leaves: what was written is kept; esc stays")


def write_all(output: int, data: bytes) -> int:
    """Write everything, also where the system takes a part at a time; how much that was."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(output, rest) :]
    return len(data)


def main() -> None:
    """Run the app until its user, or its window, leaves."""
    gc.disable()  # until the first frame, which comes a tenth sooner
    if offline.wanted():
        offline.enforce()
    run(WindowApp(Workspace(), model=sys.argv[1] if len(sys.argv) > 1 else "", driver=WindowDriver))


if __name__ == "__main__":
    main()
