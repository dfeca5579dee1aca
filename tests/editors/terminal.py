"""A terminal for editors whose screen is one."""

import re
import time
from contextlib import suppress

import pexpect
import pyte

UNKNOWN = re.compile(r"\x1b\[[?>=][\d;]*m")
"""Questions about the terminal that pyte takes for colours."""


class Terminal:
    """An editor in a terminal of 90 columns and 24 rows, with colours: without them Vim draws no list."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.screen = pyte.Screen(90, 24)
        self.stream = pyte.Stream(self.screen)
        given = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **environment}
        self.child = pexpect.spawn(
            command[0], command[1:], env=given, dimensions=(24, 90), encoding="utf-8", codec_errors="replace"
        )

    def look(self, seconds: float) -> str:
        """The screen after some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(pexpect.TIMEOUT):
                self.stream.feed(UNKNOWN.sub("", self.child.read_nonblocking(65536, 0.05)))
        return "\n".join(line.rstrip() for line in self.screen.display)

    def type(self, text: str) -> None:
        """Type as fast as people do."""
        for letter in text:
            self.child.send(letter)
            self.look(0.12)

    def until(self, text: str, seconds: float = 30.0) -> str:
        """The screen, once it has this text."""
        end = time.monotonic() + seconds
        while text not in (screen := self.look(0.2)):
            if time.monotonic() > end:
                raise TimeoutError(f"no {text!r} on:\n{screen}")
        return screen

    def end(self) -> None:
        """End the editor."""
        self.child.close(force=True)
