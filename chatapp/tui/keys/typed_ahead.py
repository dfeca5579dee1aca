"""Keys typed while the screen is opening: not echoed by the terminal, and kept for the prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.driver import Driver


@dataclass(frozen=True)
class Ahead:
    """The terminal before the screen opened."""

    attributes: list[Any]  # Any: as termios has it
    """Its previous attributes."""
    cooked: int
    """Bytes typed before; in these, enter has become a line feed."""


@contextmanager
def typed_ahead() -> Iterator[Ahead | None]:
    """Switch off echo and line mode while the screen opens; yields None if stdin is not a Unix terminal."""
    if sys.platform == "win32":
        yield None
        return
    import termios

    terminal = sys.stdin.fileno()
    before, now = termios.tcgetattr(terminal), termios.tcgetattr(terminal)
    now[0] &= ~termios.ICRNL
    now[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSANOW, now)
    try:
        yield Ahead(before, pending(terminal))
    finally:
        with suppress(termios.error):  # the terminal may be closed
            termios.tcsetattr(terminal, termios.TCSANOW, before)


def pending(terminal: int) -> int:
    """The number of bytes that were typed and not read."""
    import array
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(terminal, termios.FIONREAD, count)
    return count[0]


def driver(ahead: Ahead) -> type[Driver]:
    """Textual's driver, but starting with the keys typed ahead, and restoring the original terminal attributes."""
    from textual.drivers.linux_driver import LinuxDriver

    from chatapp.tui.keys.paste_parser import PasteParser

    class AheadDriver(LinuxDriver):
        """A driver that starts with the keys typed ahead."""

        cooked = ahead.cooked

        def start_application_mode(self) -> None:
            if count := pending(self.fileno):
                typed = os.read(self.fileno, count)
                typed = typed[: self.cooked].replace(b"\n", b"\r") + typed[self.cooked :]
                for event in PasteParser().feed(typed.decode(errors="replace")):
                    self.process_message(event)
            self.cooked = 0
            super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual's
            self.attrs_before = ahead.attributes

    return AheadDriver
