"""A document kept equal to the editor's text; positions are in the editor's units."""

import io
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from lsprotocol.types import Position, Range, TextDocumentContentChangePartial, TextDocumentContentChangeWholeDocument

Encoding = Literal["utf-8", "utf-16", "utf-32"]
Change = TextDocumentContentChangePartial | TextDocumentContentChangeWholeDocument
UNIT = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""For each encoding: Python's name without a byte order mark, and bytes per unit."""
SURROGATE = re.compile("[\ud800-\udfff]")


class Document:
    """A text as lines with their ends; the last line has none, and may be empty.

    Line ends are those of the protocol: \\n, \\r\\n and \\r.
    """

    def __init__(self, text: str, encoding: Encoding, language: str = "") -> None:
        self.encoding, self.language = encoding, language
        self.lines = split_lines(text)

    @cached_property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.lines)

    def change(self, changes: Sequence[Change]) -> None:
        """Apply edits in order."""
        for change in changes:
            if isinstance(change, TextDocumentContentChangePartial):
                self._replace(change.range, change.text)
            else:
                self.lines = split_lines(change.text)
        self.__dict__.pop("text", None)

    def _replace(self, where: Range, text: str) -> None:
        (first, start), (last, end) = sorted((self.find(where.start), self.find(where.end)))
        new = self.lines[first][:start] + text + self.lines[last][end:]
        if first and self.lines[first - 1].endswith("\r"):  # a \n inserted behind it would make it \r\n
            first, new = first - 1, self.lines[first - 1] + new
        lines = split_lines(new)
        if last < len(self.lines) - 1:
            lines.pop()  # the empty last line: the text continues with the next line
        self.lines[first : last + 1] = lines

    def find(self, position: Position) -> tuple[int, int]:
        """Line and character of a position, clamped to the line and the text."""
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
        """The position of a character in the editor's units."""
        name, unit = UNIT[self.encoding]
        return Position(line, len(self.lines[line][:character].encode(name, "surrogatepass")) // unit)

    def before(self, line: int, character: int, limit: int) -> str:
        """Up to `limit` characters before a position."""
        parts, size = [self.lines[line][:character]], character
        while line and size < limit:
            line -= 1
            parts.append(self.lines[line])
            size += len(parts[-1])
        return "".join(reversed(parts))[-limit:]

    def after(self, line: int, character: int, limit: int) -> str:
        """Up to `limit` characters after a position."""
        parts = [self.lines[line][character:]]
        size = len(parts[0])
        while line < len(self.lines) - 1 and size < limit:
            line += 1
            parts.append(self.lines[line])
            size += len(parts[-1])
        return "".join(parts)[:limit]


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends; the last has none."""
    if SURROGATE.search(text):  # join the halves of a surrogate pair that arrived separately
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    lines = list(io.StringIO(text, newline=""))
    if not lines or lines[-1].endswith(("\r", "\n")):
        lines.append("")
    return lines


def is_within(coded: bytes, cut: int, encoding: Encoding) -> bool:
    """Whether a cut at this byte would split a character."""
    if encoding == "utf-8":
        return coded[cut] & 0xC0 == 0x80
    return coded[cut + 1] & 0xFC == 0xDC and coded[cut - 1] & 0xFC == 0xD8  # low surrogate, after a high one
