"""Plain text in rows, wrapped as it grows."""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

from chatapp.text.printable import printable

TAB = " " * 4


class Wrapped:
    """A text in rows of at most so many cells, a last space not counted; more costs the last row and what is new."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = [""]
        self.parts: list[str] = []
        """The text as it came, to be wrapped anew at another width."""

    def grow(self, text: str) -> int:
        """Add text, made safe to show; gives the first row that changed."""
        self.parts.append(text)
        first = len(self.rows) - 1
        # Together with the last row, or a flood of invisible characters could come in small doses.
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
    """The rows of a line, broken between words; a word wider than a row is cut.

    Every row but the last stays as it is when the line gets longer.
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
        gap = gap[
            : max(1, room - cells)
        ]  # at the end of a row one space stays, unseen, to tell that the word has ended
        rows[-1] += word + gap
        room -= cells + len(gap)
    return rows
