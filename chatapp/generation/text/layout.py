"""The layout of code: open blocks, strings and brackets, and the columns where the next line may begin."""

import re
from typing import NamedTuple

UNIT = 4
"""Indentation of a block if the text shows none."""
SIGNS = re.compile(r"""\\.?|\"{3}|'{3}|["'#()\[\]{}:]|[^\\"'#()\[\]{}:\s]+""", re.DOTALL)
"""The tokens of a line, white space aside."""

BRACES = re.compile(
    r"\s*(//|/\*)|(async )?(function|const|let|var|export|interface|enum|declare)\s+[\w$*{\[]|import\b.*\sfrom ['\"]"
    r"|(?!\s*#).*(\)\s*\{|=>(\s*[{(\[])?|;)\s*$"
)
"""A line of a language with brackets for blocks, where indentation is free."""


class Line(NamedTuple):
    """A line that has been read, perhaps partly."""

    quote: str
    """The quote that ends the string open at its end."""
    depth: int
    """Open brackets at its end."""
    goes_on: bool
    """Whether the next line continues it, or a string or bracket."""
    colon: bool | None
    """Whether it ends in a colon; None for an empty line."""


def read_line(line: str, quote: str = "", depth: int = 0) -> Line:
    """Read a line that begins inside a string, if there is a `quote`, and inside `depth` brackets."""
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
        quote = ""  # strings end with their line
    colon = last == ":" and not depth if last else None
    return Line(quote, depth, bool(quote or depth or joined), colon)


class Layout:
    """The layout of growing code, by Python's rules; for languages with braces it says little.

    After a line that ends in a colon, outside brackets and strings, the next line is indented by one unit; any other
    line begins where an open block does.
    """

    def __init__(self) -> None:
        self.levels = [0]
        """Columns of the open blocks, the innermost last."""
        self.unit = 0
        """Columns from a block to a nested one; 0 if none was seen."""
        self.tabs = False
        """Whether the unit is tabs."""
        self.due = False
        """Whether a block must begin."""
        self.before = Line("", 0, False, None)
        """The last complete line."""
        self.line = ""
        """The current line."""
        self.braces = False
        """Whether a line showed that blocks are brackets."""

    def add(self, text: str) -> None:
        """Append text."""
        *ended, self.line = (self.line + text).split("\n")
        for line in ended:
            self._end(line)

    @property
    def blank(self) -> bool:
        """Whether the current line has only white space so far."""
        return not self.line.strip()

    @property
    def is_free(self) -> bool:
        """Whether the line may begin anywhere: in a string, in brackets, or as a continuation.

        In languages with braces, every line may.
        """
        return self.before.goes_on or self.braces

    def columns(self) -> list[int]:
        """Columns where this line may begin, innermost first."""
        return self._columns(self.levels, due=self.due)

    def columns_next(self, *, colon: bool | None = None) -> list[int]:
        """Columns where the next line may begin, if this one ends here or with a `colon` or not; [] is anywhere.

        Nothing is known inside strings and brackets.
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
        outside = range(levels[1] % unit, levels[1], unit) if len(levels) > 1 else ()  # for a text that begins indented
        return sorted({*levels, *outside}, reverse=True)

    def _levels(self, line: str) -> list[int]:
        """The blocks that are open in a line; a line with only a comment may be anywhere."""
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
