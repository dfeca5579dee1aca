"""Where a completion of several lines ends: with its block."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chatapp.completion.place import Place

MOST_LINES = 12
"""Of a block."""
OPENS = re.compile(r"[:{(\[]\s*$")
"""The end of a line that a deeper one follows."""
CLOSES = re.compile(r"\s*[}\])]+[;,)]*\s*$")
"""A line that only ends what was opened, and belongs to it."""
TURNS = re.compile(r"\s*[}\])].*[:{(\[]\s*$")
"""A line that ends what was opened and opens more that belongs to it, such as `} else {`."""


@dataclass(frozen=True)
class Block:
    """The lines that may be offered at a place."""

    begun: str
    """What the first line already has."""
    indentation: int
    """Of the first line."""
    most: int
    whole: bool
    """Whether nothing stands on the line yet: then its block is asked for, else only one that the line opens."""
    behind: str
    """The next line that is there already."""

    @classmethod
    def around(cls, place: Place, lines: int | None) -> Block:
        """The block of a place; `lines` are the most it may have."""
        begun = place.prefix.rpartition("\n")[2]
        rest, _, after = place.suffix.partition("\n")
        behind = next((line.strip() for line in after.splitlines() if line.strip()), "")
        most = 1 if rest.strip() else lines or MOST_LINES
        return cls(begun, measure(begun), most, lines is not None or not begun.strip(), behind)

    def goes_on(self, text: str) -> bool:
        """Whether another line may follow the text."""
        first, *others = text.split("\n")
        closed = bool(others) and self.measure_depth(others[-1]) == 0 and bool(CLOSES.match(others[-1]))
        return len(others) + 1 < self.most and not closed and (self.whole or bool(OPENS.search(first)))

    def holds(self, text: str, line: str) -> bool:
        """Whether a line belongs to the block after a text: it is as deep, and neither there already nor behind."""
        said = text.split("\n")
        deep, least = self.measure_depth(line), 0 if self.whole else 1
        if said[-1].rstrip().endswith(":"):
            least = (self.measure_depth(said[-1]) if len(said) > 1 else 0) + 1
        closes, turns = (deep == 0 and bool(kind.match(line)) for kind in (CLOSES, TURNS))
        new = closes or line.strip() not in (self.behind, *(other.strip() for other in said))
        return new and (closes or turns or deep >= least)

    def measure_depth(self, line: str) -> int:
        """How much deeper a line is than the first one."""
        return measure(line) - self.indentation


def measure(line: str) -> int:
    """The width of a line's indentation, a tab being as wide as four spaces."""
    begun = line.expandtabs(4)
    return len(begun) - len(begun.lstrip())
