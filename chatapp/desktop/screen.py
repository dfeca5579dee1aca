"""The app in its own process, drawn by a page: Textual's web driver, with messages from and to the window."""

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
"""Seconds between checks whether the app is busy."""
SYSTEM_THEMES = {True: "midnight", False: "paper"}
"""The themes for a dark and a light system, if the user has chosen none."""
MODES = "\x1b[?1049h\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h\x1b[?25l\x1b[?2004h"
"""Escape sequences that set up a terminal: alternate screen, mouse, hidden cursor, bracketed paste."""


class WindowDriver(WebDriver):
    """Textual's web driver with an output of its own and additional messages."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        sys.stdout.flush()
        output = os.dup(1)
        os.dup2(2, 1)  # runtimes may print to standard output
        self._write = partial(write_all, output)

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        if packet_type == "resize" and self._app._loop:
            columns, rows = payload["width"], payload["height"]
            assert isinstance(columns, int) and isinstance(rows, int)
            self._size, size = (columns, rows), Size(columns, rows)
            self.send_message(events.Resize(size, size))  # queued like the first size, not to overtake it
            # Even if the size is the same again by now, the page's content has moved.
            self._app.call_later(partial(self._app.refresh, layout=True))
        elif packet_type in ("close", "drop", "lost", "repaint", "scheme"):
            self._app.call_later(self._app.hear, packet_type, payload)  # type: ignore[attr-defined]  # a WindowApp
        else:
            super().on_meta(packet_type, payload)

    def send_message(self, message: Message) -> None:
        """Post a message to the app from the input thread, unless the app has ended."""
        posted = self._app._post_message(message)
        try:
            asyncio.run_coroutine_threadsafe(posted, self._loop)
        except RuntimeError:  # the loop is closed
            posted.close()

    def run_input_thread(self) -> None:
        """Read input until the window is gone, then exit the app, which saves everything."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())


class WindowApp(ChatApp):
    """The app in a window, exchanging messages with it."""

    busy = False
    """The busy state last reported to the window."""

    def on_mount(self) -> None:
        super().on_mount()
        self.theme_changed_signal.subscribe(self, lambda _: self.tell_colours())
        self.tell_colours()
        self.set_interval(LOOK, self.tell_busy)

    def send_to_window(self, kind: str, **facts: object) -> None:
        """Send a message to the window."""
        if isinstance(self._driver, WindowDriver):
            self._driver.write_meta({"type": kind, **facts})

    def tell_colours(self) -> None:
        """Send the theme's colours, for the area around the screen."""
        colours = self.palettes[self.theme]
        if not colours.ansi:
            self.send_to_window("colours", background=colours.background, text=colours.text)

    @property
    def working(self) -> list[str]:
        """Descriptions of what closing would interrupt."""
        answers = sum(1 for pane in self.chat_screen.panes if pane.reply)
        jobs = [f"{job.kind} {job.name}" for job in self.chat_screen.models.jobs.all() if not job.ended]
        return ["an answer is being written"] * bool(answers) + jobs

    def tell_busy(self) -> None:
        """Report to the window when work begins and when it has ended."""
        if self.busy != (busy := bool(self.working)):
            self.busy = busy
            self.send_to_window("busy", busy=busy)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: Literal["information", "warning", "error"] = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a notification, also as a system notification if the window is not focused."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)
        if not self.app_focus:
            self.send_to_window("announce", text=printable(message[:300]))

    def hear(self, kind: str, payload: dict[str, Any]) -> None:  # Any: parsed JSON
        """Handle a message from the window."""
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
                self.send_to_window("busy", busy=self.busy)
                self.refresh(layout=True)
            case "close":
                self.close()

    def close(self) -> None:
        """Exit; if busy, ask first. Closing a second time confirms."""
        if not (working := self.working) or isinstance(self.screen, LeaveScreen):
            self.exit()
        else:
            self.push_screen(LeaveScreen(working), lambda leaves: self.exit() if leaves else None)


class LeaveScreen(Window[bool]):
    """Asks whether to exit although the app is busy; dismisses with the answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "dismiss(True)", "Quit", id="leave.leave"),
        Binding("escape,n", "dismiss(False)", "Stay", id="leave.stay"),
    ]

    def __init__(self, working: list[str]) -> None:
        text = Static("\n".join(working), markup=False)
        super().__init__("Quit now?", text, "enter quits, what was written is saved; esc stays")


def write_all(output: int, data: bytes) -> int:
    """Write all data, even if the system takes it in parts; returns its length."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(output, rest) :]
    return len(data)


def main() -> None:
    """Run the app until the user leaves or the window is closed."""
    gc.disable()  # enabled again after the first frame, which comes sooner this way
    if offline.wanted():
        offline.enforce()
    run(WindowApp(Workspace(), model=sys.argv[1] if len(sys.argv) > 1 else "", driver=WindowDriver))


if __name__ == "__main__":
    main()
