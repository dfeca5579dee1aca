"""Pastes that are read whole: nothing in one is a key, whatever sequences it has."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from chatapp.text.printable import clean_paste

if TYPE_CHECKING:
    from textual.driver import Driver

SILENCE = 10.0
"""Seconds of silence after which a paste is taken to have ended: it must not lock the keyboard for good."""
KEYS = 64
"""Characters of a read that may be keys, pressed in vain, rather than more of a paste."""
PART = 4_000_000
"""Characters after which a paste is passed on in parts."""
MARK = len(BRACKETED_PASTE_START)


class PasteParser(XTermParser):
    """Textual's parser, without keys in pastes: it takes an escape sequence in one for keys, up to those that quit."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self.tail = ""
        """The last characters that were read, which may be the beginning of a mark."""
        self.parts: list[str] | None = None
        """What was read of a paste, without the tail; None outside of one."""
        self.heard = 0.0
        """When more of the paste came."""

    def feed(self, data: str) -> Iterable[Message]:
        """Parse what was read, which may begin and end anywhere; nothing is the end of the input."""
        if not data:
            yield from super().feed(data)
        while data:
            seen = self.tail + data
            mark = BRACKETED_PASTE_START if self.parts is None else BRACKETED_PASTE_END
            before, found, after = seen.partition(mark)
            if self.parts is None:
                yield from super().feed((before + found)[len(self.tail) :])
                if found:
                    self.parts, self.heard = [], time.monotonic()
            else:
                self.parts.append(before if found else before[: 1 - MARK])
                if len(data) > KEYS:
                    self.heard = time.monotonic()
                if found:
                    yield from self.end()
                elif sum(map(len, self.parts)) > PART:
                    yield self.take()
                    self.parts = []
            self.tail, data = ("", after) if found else (seen[1 - MARK :], "")

    def tick(self) -> Iterable[Message]:
        """Let time pass: an escape that nothing follows is the key, and a paste that never ends is over."""
        if self.parts is not None and time.monotonic() > self.heard + SILENCE:
            self.parts.append(self.tail)
            yield from self.end()
            self.tail = ""
        waited = self._timeout_time is not None
        yield from super().tick()
        if waited and self._timeout_time is None:
            self.tail = ""

    def end(self) -> Iterable[Message]:
        """Pass a paste on, and let keys be keys again."""
        paste = self.take()
        self.parts = None
        list(super().feed(BRACKETED_PASTE_END))  # to Textual's parser it was an empty one
        yield paste

    def take(self) -> events.Paste:
        """What was read of the paste, with nothing in it that a widget or the terminal would obey."""
        return events.Paste(clean_paste("".join(self.parts or ()).replace("\x00", "")))


def parse_pastes(driver: type[Driver]) -> None:
    """Let a driver have this parser: Textual's drivers take the one that stands in their module by its name."""
    for name in {*(one.__module__ for one in driver.__mro__), "textual.drivers.win32"}:
        if hasattr(sys.modules.get(name), "XTermParser"):
            sys.modules[name].XTermParser = PasteParser  # type: ignore[attr-defined]  # as just seen
