"""Tokens wrapped into rows of cells, which know which token each cell belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len, split_graphemes

from chatapp.text.printable import LONGEST_RUN, printable

NOTHING = "◦"
"""Stands for a token without visible text."""
NEWLINE = "↵"
TAB = "→   "


def label(text: str) -> str:
    """A token on one line: spaces, newlines and invisible characters are made visible."""
    from chatapp.evaluation.measurements import escape

    counted = re.sub(" {4,}", lambda run: f"␣×{len(run[0])}", printable(text))
    shown = counted.replace(" ", "␣").replace("\n", NEWLINE).replace("\t", "→")
    return shown if cell_len(shown) else escape(text)[1:-1] or NOTHING


class Cluster(NamedTuple):
    """A grapheme: what a reader sees as one character."""

    token: int
    """The token it begins in; later tokens may have added marks to it."""
    offset: int
    """Its offset in the token's text."""
    text: str
    width: int
    ends_row: bool = False


class Piece(NamedTuple):
    """The part of a token that is in one row."""

    token: int
    text: str
    width: int


class Flow:
    """The rows of a growing text; growing rewraps only the last row."""

    def __init__(self, width: int) -> None:
        self.width = max(4, width)
        self.texts: list[str] = []
        """The shown text of each token, with newlines."""
        self.rows: list[list[Piece]] = []
        self._starts: list[tuple[int, int]] = []
        """Token and offset at which each row begins."""
        self._places: list[tuple[int, int] | None] = []
        self._hosts: dict[int, int] = {}
        """For tokens without cells of their own: the token whose cell they changed."""

    def grow(self, texts: Sequence[str]) -> None:
        """Append the texts of tokens."""
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
        """Wrap everything at another width."""
        self.width = max(4, width)
        self.rows, self._starts, self._places = [], [], [None] * len(self.texts)
        self._wrap(0, 0)

    def place(self, token: int) -> tuple[int, int]:
        """Row and column of a token's first cell."""
        return self._places[token] or self._places[self.host(token)] or (0, 0)

    def host(self, token: int) -> int:
        """The token in whose cells this one is shown: itself, unless it is a mark on an earlier character."""
        while self._places[token] is None and token in self._hosts:
            token = self._hosts[token]
        return token

    def at(self, row: int, column: int) -> int:
        """The token at a cell, or the nearest in its row."""
        pieces = self.rows[max(0, min(row, len(self.rows) - 1))]
        for piece in pieces:
            column -= piece.width
            if column < 0:
                return piece.token
        return pieces[-1].token

    def _wrap(self, token: int, offset: int) -> None:
        """Wrap the text from here on; each row keeps a cell free for the space or newline after a word."""
        row: list[Cluster] = []
        used = word = 0  # cells used in the row, and the index at which its last word begins
        for cluster in self._clusters(token, offset):
            blank = cluster.ends_row or cluster.text == " "
            if cluster.width > 1:
                word = len(row)  # scripts with wide characters can break anywhere
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
        """The graphemes of the text from here on."""
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
        """The graphemes of a line, or of the rest of one."""
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
