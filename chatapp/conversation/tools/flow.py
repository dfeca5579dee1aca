"""How much a tool server may send before it is cut off."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

TOOLS = 128
"""Maximum tools of a server."""
LARGEST = 4 << 20
"""Maximum bytes of a message."""
MOST, BYTES, SPAN = 2_000, 32 << 20, 10.0
"""Maximum messages and bytes within this many seconds."""


class Flood(Exception):
    """A server sends too much; the message says what, to be put after the server's name."""


@dataclass
class Flow:
    """Counts what one server sends."""

    rubbish: str = ""
    """The first line it sent that was not a message."""
    fault: str = ""
    """Why it was cut off, or how it ended."""
    on_fault: Callable[[], object] = lambda: None
    """Called when it is to be cut off."""
    _since: float = field(default_factory=time.monotonic)
    _messages: int = 0
    _bytes: int = 0

    def take(self, *, size: int = 0, messages: int = 0) -> None:
        """Count what has arrived; Flood if it is too much."""
        if (now := time.monotonic()) > self._since + SPAN:
            self._since, self._messages, self._bytes = now, 0, 0
        self._messages, self._bytes = self._messages + messages, self._bytes + size
        if self._messages > MOST:
            raise Flood(f"sent more than {MOST:,} messages in {SPAN:g} seconds")
        if self._bytes > BYTES:
            raise Flood(f"sent more than {BYTES >> 20} MB in {SPAN:g} seconds")

    def give_up(self, fault: str) -> None:
        """Cut it off for this reason, unless there is one already."""
        self.fault = self.fault or fault
        self.on_fault()

    def check(self, size: int) -> None:
        """Raise Flood if a message of this size, which may still grow, is too large."""
        if size > LARGEST:
            raise Flood(f"sent a message of more than {LARGEST >> 20} MB")
