"""The block that a completion of several lines belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chatapp.completion.place import Place

MOST_LINES = 12
"""Most lines of a block."""
OPENS = re.compile(r"[:{(\[]\s*$")
"""The end of a line that opens a block."""
CLOSES = re.compile(r"\s*[}\])]+[;,)]*\s*$")
"""A line that only closes brackets, and belongs to the block."""
TURNS = re.compile(r"\s*[}\])].*[:{(\[]\s*$")
"""A line that closes and opens brackets within the block, such as `} else {`."""


@dataclass(frozen=True)
class Block:
    """The block in which lines may be offered at a place."""

    begun: str
    """The beginning of the first line, already written."""
    indentation: int
    """The first line's indentation."""
    most: int
    whole: bool
    """Whether the first line is empty, so that the whole block is wanted; else only what the line opens."""
    behind: str
    """The next line after the place."""

    @classmethod
    def around(cls, place: Place, lines: int | None) -> Block:
        """The block at a place; `lines` are the most it may have."""
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
        """Whether a line belongs to the block after a text: indented deep enough, and not a repetition."""
        said = text.split("\n")
        deep, least = self.measure_depth(line), 0 if self.whole else 1
        if said[-1].rstrip().endswith(":"):
            least = (self.measure_depth(said[-1]) if len(said) > 1 else 0) + 1
        closes, turns = (deep == 0 and bool(kind.match(line)) for kind in (CLOSES, TURNS))
        new = closes or line.strip() not in (self.behind, *(other.strip() for other in said))
        return new and (closes or turns or deep >= least)

    def measure_depth(self, line: str) -> int:
        """A line's indentation relative to the first line's."""
        return measure(line) - self.indentation


def measure(line: str) -> int:
    """The width of a line's indentation, where a tab is four spaces."""
    begun = line.expandtabs(4)
    return len(begun) - len(begun.lstrip())
