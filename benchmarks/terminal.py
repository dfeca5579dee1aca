"""A pseudo-terminal of 120 by 40 with a program in it."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping
from types import TracebackType
from typing import Self


class Terminal:
    """Runs a program; what it paints is collected as it is read."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self.file, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        left_out = ("COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE")  # an installed program is compiled once
        inherited = {key: value for key, value in os.environ.items() if key not in left_out}
        self.process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**inherited, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
            start_new_session=True,
        )
        os.close(inner)
        self.seen = bytearray()

    def read(self) -> bytes:
        """What was painted since the last time, at least a byte; nothing once the program has ended."""
        try:
            piece = os.read(self.file, 65536)
        except OSError:  # the other side has ended
            return b""
        self.seen += piece
        return piece

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self.file, keys)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.file)
