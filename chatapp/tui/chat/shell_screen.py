"""Screen: a shell command that runs until it ends or escape cancels it."""

from __future__ import annotations

import time
from threading import Event
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from chatapp.conversation import shell
from chatapp.text.printable import printable
from chatapp.tui.errors import telling
from chatapp.tui.widgets.windows import Window


class ShellScreen(Window[shell.Output | None]):
    """Dismisses with the output, or None if the command was cancelled or did not start."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", show=False)]

    def __init__(self, command: str) -> None:
        super().__init__(printable(f"$ {command}"), None, "esc cancels")
        self.command, self.stopping, self.begun = command, Event(), time.monotonic()

    def on_mount(self) -> None:
        self.set_interval(1.0, self.show_seconds)
        self.execute()

    def show_seconds(self) -> None:
        """Show how long it has been running."""
        self.note.update(f"{time.monotonic() - self.begun:.0f} s, at most {shell.LONGEST:.0f}; esc cancels")

    @work(thread=True)
    def execute(self) -> None:
        output = None
        with telling(self):
            output = shell.run(self.command, stopped=self.stopping.is_set)
        self.app.call_from_thread(self.dismiss, None if self.stopping.is_set() else output)

    def action_cancel(self) -> None:
        self.stopping.set()

    def on_unmount(self) -> None:
        self.stopping.set()
