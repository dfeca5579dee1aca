"""Tokens in rows of cells, wrapped at words, that know which cell is whose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len, split_graphemes

from chatapp.text.printable import LONGEST_RUN, printable

NOTHING = "◦"
"""Stands for a token that adds no text, or none that can be seen."""
NEWLINE = "↵"
TAB = "→   "


def label(text: str) -> str:
    """A token in one line of a list: spaces and newlines can be seen, and so can what has no looks."""
    from chatapp.evaluation.measurements import escape

    counted = re.sub(" {4,}", lambda run: f"␣×{len(run[0])}", printable(text))
    shown = counted.replace(" ", "␣").replace("\n", NEWLINE).replace("\t", "→")
    return shown if cell_len(shown) else escape(text)[1:-1] or NOTHING


class Cluster(NamedTuple):
    """What a reader takes for one character, marks and joined emoji included."""

    token: int
    """In which it begins; later tokens may have added marks to it."""
    offset: int
    """Where in the token's shown text."""
    text: str
    width: int
    ends_row: bool = False


class Piece(NamedTuple):
    """The part of a token that is in one row."""

    token: int
    text: str
    width: int


class Flow:
    """The rows of a text that grows; only its last row is wrapped again when it does."""

    def __init__(self, width: int) -> None:
        self.width = max(4, width)
        self.texts: list[str] = []
        """What is shown of each token; newlines are still in it."""
        self.rows: list[list[Piece]] = []
        self._starts: list[tuple[int, int]] = []
        """The token and the offset with which each row begins."""
        self._places: list[tuple[int, int] | None] = []
        self._hosts: dict[int, int] = {}
        """For tokens with no cell of their own, whose cell they changed."""

    def grow(self, texts: Sequence[str]) -> None:
        """Add the texts of more tokens."""
        self.texts += [printable(text).replace("\t", TAB) or NOTHING for text in texts]
        self._places += [None] * len(texts)
        token, offset = 0, 0
        if self._starts:
            token, offset = self._starts.pop()
            self.rows.pop()
        for later in range(token + bool(offset), len(self.texts)):
            self._places[later] = None
        self._wrap(token, offset)

    def rewrap(self, width: int) -> None:
        """Lay everything out for another width."""
        self.width = max(4, width)
        self.rows, self._starts, self._places = [], [], [None] * len(self.texts)
        self._wrap(0, 0)

    def place(self, token: int) -> tuple[int, int]:
        """The row and the column of a token's first cell."""
        return self._places[token] or self._places[self.host(token)] or (0, 0)

    def host(self, token: int) -> int:
        """The token in whose cells this one is seen: itself, but for marks on an earlier character."""
        while self._places[token] is None and token in self._hosts:
            token = self._hosts[token]
        return token

    def at(self, row: int, column: int) -> int:
        """The token in a cell, or the nearest one in its row."""
        pieces = self.rows[max(0, min(row, len(self.rows) - 1))]
        for piece in pieces:
            column -= piece.width
            if column < 0:
                return piece.token
        return pieces[-1].token

    def _wrap(self, token: int, offset: int) -> None:
        """Break the text from here on into rows; a word keeps a cell free behind it for its space or newline."""
        row: list[Cluster] = []
        used = word = 0  # cells in the row, and where in it the last word begins
        for cluster in self._clusters(token, offset):
            blank = cluster.ends_row or cluster.text == " "
            if cluster.width > 1:
                word = len(row)  # scripts with wide characters break anywhere
            if not blank and used + cluster.width >= self.width:
                keep = word or len(row)
                self._close(row[:keep])
                row = row[keep:]
                used, word = sum(one.width for one in row), 0
            row.append(cluster)
            used += cluster.width
            if blank or cluster.width > 1:
                word = len(row)
            if cluster.ends_row or (blank and used >= self.width):
                self._close(row)
                row, used, word = [], 0, 0
        self._close(row)

    def _close(self, row: Sequence[Cluster]) -> None:
        """Add a row."""
        if not row:
            return
        number, column = len(self.rows), 0
        pieces = []
        for token, clusters in groupby(row, lambda cluster: cluster.token):
            own = list(clusters)
            width = sum(one.width for one in own)
            if self._places[token] is None:
                self._places[token] = (number, column)
            pieces.append(Piece(token, "".join(one.text for one in own), width))
            column += width
        self._starts.append((row[0].token, row[0].offset))
        self.rows.append(pieces)

    def _clusters(self, token: int, offset: int) -> Iterator[Cluster]:
        """The text from here on, character by character as a reader sees them."""
        line: list[tuple[int, int, str]] = []
        for number in range(token, len(self.texts)):
            text = self.texts[number]
            for place in range(offset, len(text)):
                if text[place] == "\n":
                    yield from self._split(line)
                    line = []
                    yield Cluster(number, place, NEWLINE, 1, True)
                else:
                    line.append((number, place, text[place]))
            offset = 0
        yield from self._split(line)

    def _split(self, line: list[tuple[int, int, str]]) -> Iterator[Cluster]:
        """A line, or the rest of one, in clusters."""
        text = "".join(letter for _, _, letter in line)
        if text.isascii():
            for number, place, letter in line:
                yield Cluster(number, place, letter, 1)
            return
        for start, end, width in split_graphemes(text)[0]:
            number, place, _ = line[start]
            shown = text[start : min(end, start + 1 + LONGEST_RUN)] if width else NOTHING
            for guest, _, _ in line[start + 1 : end]:
                if guest != number:
                    self._hosts[guest] = number
            yield Cluster(number, place, shown, width or 1)
