"""How much a server may send: who sends more is left, whatever it is."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

TOOLS = 128
"""Tools of a server that are looked at."""
LARGEST = 4 << 20
"""Bytes of a message."""
MOST, BYTES, SPAN = 2_000, 32 << 20, 10.0
"""Messages, and bytes, that may come in so many seconds."""


class Flood(Exception):
    """A server sends too much; the message says what, without its subject."""


@dataclass
class Flow:
    """What comes from one server, counted."""

    rubbish: str = ""
    """The first line it sent that was no message."""
    fault: str = ""
    """Why it was left, or what became of it."""
    on_fault: Callable[[], object] = lambda: None
    """Told when it is to be left."""
    _since: float = field(default_factory=time.monotonic)
    _messages: int = 0
    _bytes: int = 0

    def take(self, *, size: int = 0, messages: int = 0) -> None:
        """Count what has come; Flood where that is too much."""
        if (now := time.monotonic()) > self._since + SPAN:
            self._since, self._messages, self._bytes = now, 0, 0
        self._messages, self._bytes = self._messages + messages, self._bytes + size
        if self._messages > MOST:
            raise Flood(f"sent more than {MOST:,} messages in {SPAN:g} seconds")
        if self._bytes > BYTES:
            raise Flood(f"sent more than {BYTES >> 20} MB in {SPAN:g} seconds")

    def give_up(self, fault: str) -> None:
        """Leave it, for this reason, unless there was another before."""
        self.fault = self.fault or fault
        self.on_fault()

    def check(self, size: int) -> None:
        """Refuse a message of so many bytes, of which more may come."""
        if size > LARGEST:
            raise Flood(f"sent a message of more than {LARGEST >> 20} MB")
