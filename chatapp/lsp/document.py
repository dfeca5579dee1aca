"""A text as the editor has it, kept equal by its edits; places are counted in the units of the editor."""

import io
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from lsprotocol.types import Position, Range, TextDocumentContentChangePartial, TextDocumentContentChangeWholeDocument

Encoding = Literal["utf-8", "utf-16", "utf-32"]
Change = TextDocumentContentChangePartial | TextDocumentContentChangeWholeDocument
UNIT = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""Of each encoding: the name without a mark of the byte order, and the bytes of a unit."""
SURROGATE = re.compile("[\ud800-\udfff]")


class Document:
    """A text in lines, each with its end; the last one has none, and may be empty.

    What ends a line is what the protocol says: \\n, \\r\\n and \\r, and nothing else.
    """

    def __init__(self, text: str, encoding: Encoding, language: str = "") -> None:
        self.encoding, self.language = encoding, language
        self.lines = split_lines(text)

    @cached_property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.lines)

    def change(self, changes: Sequence[Change]) -> None:
        """Apply edits, each to what the one before has left."""
        for change in changes:
            if isinstance(change, TextDocumentContentChangePartial):
                self._replace(change.range, change.text)
            else:
                self.lines = split_lines(change.text)
        self.__dict__.pop("text", None)

    def _replace(self, where: Range, text: str) -> None:
        (first, start), (last, end) = sorted((self.find(where.start), self.find(where.end)))
        new = self.lines[first][:start] + text + self.lines[last][end:]
        if first and self.lines[first - 1].endswith("\r"):  # which a \n that comes to stand behind it joins
            first, new = first - 1, self.lines[first - 1] + new
        lines = split_lines(new)
        if last < len(self.lines) - 1:
            lines.pop()  # it is empty: the line that is cut here still has its end
        self.lines[first : last + 1] = lines

    def find(self, position: Position) -> tuple[int, int]:
        """Line and character of a position; what is beyond a line, or the text, is at its end."""
        if position.line >= len(self.lines):
            return len(self.lines) - 1, len(self.lines[-1])
        line = self.lines[position.line].rstrip("\r\n")
        if line.isascii() or self.encoding == "utf-32":
            return position.line, min(position.character, len(line))
        name, unit = UNIT[self.encoding]
        coded, cut = line.encode(name, "surrogatepass"), position.character * unit
        while 0 < cut < len(coded) and is_within(coded, cut, self.encoding):
            cut -= unit
        return position.line, len(coded[:cut].decode(name, "surrogatepass"))

    def position(self, line: int, character: int) -> Position:
        """The position of a character of a line, in the editor's units."""
        name, unit = UNIT[self.encoding]
        return Position(line, len(self.lines[line][:character].encode(name, "surrogatepass")) // unit)

    def before(self, line: int, character: int, limit: int) -> str:
        """The last characters before a place, `limit` at most."""
        parts, size = [self.lines[line][:character]], character
        while line and size < limit:
            line -= 1
            parts.append(self.lines[line])
            size += len(parts[-1])
        return "".join(reversed(parts))[-limit:]

    def after(self, line: int, character: int, limit: int) -> str:
        """The first characters after a place, `limit` at most."""
        parts = [self.lines[line][character:]]
        size = len(parts[0])
        while line < len(self.lines) - 1 and size < limit:
            line += 1
            parts.append(self.lines[line])
            size += len(parts[-1])
        return "".join(parts)[:limit]


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends; the last has none."""
    if SURROGATE.search(text):  # the halves of a pair, which came one after the other
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    lines = list(io.StringIO(text, newline=""))
    if not lines or lines[-1].endswith(("\r", "\n")):
        lines.append("")
    return lines


def is_within(coded: bytes, cut: int, encoding: Encoding) -> bool:
    """Whether a cut would divide a character."""
    if encoding == "utf-8":
        return coded[cut] & 0xC0 == 0x80
    return coded[cut + 1] & 0xFC == 0xDC and coded[cut - 1] & 0xFC == 0xD8  # low surrogate, after a high one
