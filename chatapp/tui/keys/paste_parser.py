"""Parses pastes as a whole, so that escape sequences in a paste are not taken for keys."""

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
"""Seconds of silence after which an unfinished paste counts as ended, so that the keyboard is not locked."""
KEYS = 64
"""A read of at most this many characters may be key presses rather than more of a paste."""
PART = 4_000_000
"""Characters after which a paste is passed on in parts."""
MARK = len(BRACKETED_PASTE_START)


class PasteParser(XTermParser):
    """Textual's parser without keys in pastes: its own takes escape sequences in them for keys, even for quit."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self.tail = ""
        """The last characters read, which may be the beginning of a mark."""
        self.parts: list[str] | None = None
        """What was read of a paste, without the tail; None outside a paste."""
        self.heard = 0.0
        """When more of the paste last arrived."""

    def feed(self, data: str) -> Iterable[Message]:
        """Parse a read, which may begin and end anywhere; an empty one is the end of input."""
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
        """Handle timeouts: a lone escape is the key, and an unfinished paste ends."""
        if self.parts is not None and time.monotonic() > self.heard + SILENCE:
            self.parts.append(self.tail)
            yield from self.end()
            self.tail = ""
        waited = self._timeout_time is not None
        yield from super().tick()
        if waited and self._timeout_time is None:
            self.tail = ""

    def end(self) -> Iterable[Message]:
        """Emit the paste, and parse keys again."""
        paste = self.take()
        self.parts = None
        list(super().feed(BRACKETED_PASTE_END))  # Textual's parser has seen an empty paste
        yield paste

    def take(self) -> events.Paste:
        """What was read of the paste, without control characters."""
        return events.Paste(clean_paste("".join(self.parts or ()).replace("\x00", "")))


def parse_pastes(driver: type[Driver]) -> None:
    """Make a driver use this parser: Textual's drivers look it up by name in their module."""
    for name in {*(one.__module__ for one in driver.__mro__), "textual.drivers.win32"}:
        if hasattr(sys.modules.get(name), "XTermParser"):
            sys.modules[name].XTermParser = PasteParser  # type: ignore[attr-defined]  # as just seen
