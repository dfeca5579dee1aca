"""Plain text wrapped into rows as it grows."""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

from chatapp.text.printable import printable

TAB = " " * 4


class Wrapped:
    """A text in rows of at most `width` cells, not counting a final space; growing rewraps only the last row."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = [""]
        self.parts: list[str] = []
        """The text as it arrived, for wrapping at another width."""

    def grow(self, text: str) -> int:
        """Append text, made printable; returns the index of the first changed row."""
        self.parts.append(text)
        first = len(self.rows) - 1
        # Include the last row: a flood of invisible characters might arrive in small pieces.
        safe = printable(self.rows.pop() + text.replace("\t", TAB))
        for line in safe.split("\n"):
            self.rows += wrap(line, self.width)
        return first

    def resize(self, width: int) -> None:
        """Wrap at another width."""
        if width != self.width:
            text = "".join(self.parts)
            self.width, self.rows, self.parts = width, [""], []
            self.grow(text)


def wrap(line: str, width: int) -> list[str]:
    """The rows of a line, broken between words; a longer word is cut.

    All rows but the last stay the same when the line grows.
    """
    rows, room = [""], width
    for word, gap in re.findall(r"([^ ]*)( *)", line):
        cells = cell_len(word)
        if word and cells > room and rows[-1]:
            rows.append("")
            room = width
        if cells > width:
            *full, word = chop_cells(word, width)
            rows[-1:] = [*full, ""]
            cells = cell_len(word)
        # One space is kept even beyond the row's end, to remember that the word has ended.
        gap = gap[: max(1, room - cells)]
        rows[-1] += word + gap
        room -= cells + len(gap)
    return rows
