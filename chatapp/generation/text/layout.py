"""The layout of code: its open blocks, strings and brackets, and the columns at which its next line may begin."""

import re
from typing import NamedTuple

UNIT = 4
"""Columns by which a block stands further in, where the text shows none."""
SIGNS = re.compile(r"""\\.?|\"{3}|'{3}|["'#()\[\]{}:]|[^\\"'#()\[\]{}:\s]+""", re.DOTALL)
"""What a line is read as, white space apart."""

BRACES = re.compile(
    r"\s*(//|/\*)|(async )?(function|const|let|var|export|interface|enum|declare)\s+[\w$*{\[]|import\b.*\sfrom ['\"]"
    r"|(?!\s*#).*(\)\s*\{|=>(\s*[{(\[])?|;)\s*$"
)
"""A line, outside brackets, of a language whose blocks are brackets, so that lines stand where they like."""


class Line(NamedTuple):
    """A line that has been read, perhaps in part."""

    quote: str
    """What ends the string that is open at its end."""
    depth: int
    """Brackets that are open there."""
    goes_on: bool
    """Whether the next line belongs to it, or to a string or bracket that is open."""
    colon: bool | None
    """Whether it ends in a colon; None where it says nothing."""


def read_line(line: str, quote: str = "", depth: int = 0) -> Line:
    """Read a line that begins inside a string, if a `quote` is given, and inside `depth` brackets."""
    last, joined = "", False
    for sign in SIGNS.findall(line):
        joined = sign == "\\"
        if quote:
            if sign == quote:
                quote, last = "", sign
            continue
        if sign == "#":
            break
        last = sign
        if sign[0] in "\"'":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth = max(0, depth - 1)
    if len(quote) == 1 and not joined:
        quote = ""  # a string ends with its line
    colon = last == ":" and not depth if last else None
    return Line(quote, depth, bool(quote or depth or joined), colon)


class Layout:
    """Code as it grows, as Python lays it out; in other languages, whose blocks are brackets, little is said.

    After a line that ends in a colon, outside brackets and strings, the next one stands one unit further in;
    any other stands where an open block does.
    """

    def __init__(self) -> None:
        self.levels = [0]
        """Columns at which the open blocks stand, the innermost last."""
        self.unit = 0
        """Columns from a block to the next within it; 0 where none was seen."""
        self.tabs = False
        """Whether it is tabs that are counted."""
        self.due = False
        """Whether a block is to begin."""
        self.before = Line("", 0, False, None)
        """The last line that is complete."""
        self.line = ""
        """The line that is being written."""
        self.braces = False
        """Whether a line told that blocks are brackets here."""

    def add(self, text: str) -> None:
        """Read what the code has grown by."""
        *ended, self.line = (self.line + text).split("\n")
        for line in ended:
            self._end(line)

    @property
    def blank(self) -> bool:
        """Whether nothing is in the line yet, or white space only."""
        return not self.line.strip()

    @property
    def is_free(self) -> bool:
        """Whether the line stands where it likes: in a string, in brackets, or as a part of the one before it.

        Where blocks are brackets, every line does.
        """
        return self.before.goes_on or self.braces

    def columns(self) -> list[int]:
        """Where this line may begin; from the innermost place outwards."""
        return self._columns(self.levels, due=self.due)

    def columns_next(self, *, colon: bool | None = None) -> list[int]:
        """Where the next line may begin if this one ends here, or in what is a `colon` or not; [] is anywhere.

        Nothing is said where a string or bracket is open.
        """
        line = read_line(self.line, self.before.quote, self.before.depth)
        if line.goes_on or self.braces or BRACES.match(self.line):
            return []
        ends = line.colon if colon is None else colon
        return self._columns(self._levels(self.line), due=self.due if ends is None else ends)

    def _columns(self, levels: list[int], *, due: bool) -> list[int]:
        unit = self.unit or (1 if self.tabs else UNIT)
        if due:
            return [levels[-1] + unit]
        outside = range(levels[1] % unit, levels[1], unit) if len(levels) > 1 else ()  # of a text that begins indented
        return sorted({*levels, *outside}, reverse=True)

    def _levels(self, line: str) -> list[int]:
        """The blocks that are open in a line; one without anything but a comment may stand anywhere."""
        if self.is_free or not line.strip() or line.lstrip()[0] == "#":
            return self.levels
        column = len(line) - len(line.lstrip())
        levels = [level for level in self.levels if level < column] if column else []
        return [*levels, column]

    def _end(self, line: str) -> None:
        levels, outside = self._levels(line), not self.before.goes_on
        if levels is not self.levels and levels[-1]:
            self.tabs = line[0] == "\t"
            if self.due:
                self.unit = max(0, levels[-1] - self.levels[-1])
        self.levels = levels
        self.before = read_line(line, self.before.quote, self.before.depth)
        if outside and not self.before.quote and BRACES.match(line):
            self.braces = True
        if self.before.colon is not None and not self.before.goes_on:
            self.due = self.before.colon
