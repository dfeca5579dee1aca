"""Longest matches: lines that followed, elsewhere, what stands before the cursor."""

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chatapp.completion.place import Occurrence, Place

LEAST = 3
"""Characters before the cursor that must be the same."""
MOST = 100
"""As many tell as much as more do."""
OCCURRENCES = 400
"""Of one text, or one folder, those with the longest matches."""
LINES = 6
"""Different lines of the file, and as many of others."""
LONGEST_LINE = 200
"""Characters: what goes on for longer is no line that anybody would write again."""


@dataclass(frozen=True)
class Match:
    """A line that followed the same text elsewhere."""

    line: str
    """What followed, without white space at its end."""
    length: int
    """Characters before it that are the same, where most are."""
    share: float
    """How often this followed, of all that did; each counts by the cube of its length."""
    first: bool
    """Whether none is longer, and of those that are as long none nearer."""
    path: Path | None = None
    """The other file it was found in."""


def matches_in_file(place: Place) -> list[Match]:
    """Lines that followed the same text in this file, before the cursor or after it; the longest match first."""
    tail = place.prefix[-MOST:]
    before = find_occurrences(place.prefix, tail, but=len(place.prefix))
    after = find_occurrences(place.suffix, tail)
    return pool([*reversed(before), *after], place.suffix)


def matches_elsewhere(place: Place) -> list[Match]:
    """Lines that followed the same text in other files, those open in the editor and those of the folder."""
    tail = place.prefix[-MOST:]
    found = [each._replace(path=file.path) for file in place.open_files for each in find_occurrences(file.text, tail)]
    if place.folder:
        seen = {file.path for file in place.open_files}
        found += [each for each in place.folder.occurrences(tail, place.path) if each.path not in seen]
    return pool(found, place.suffix)


def find_occurrences(text: str, tail: str, *, but: int = -1) -> list[Occurrence]:
    """Where `text` has the longest ends of `tail`, in the text's order; not what ends `but` so far from its beginning.

    Only as long an end is looked for as leaves OCCURRENCES at most, or where more are equally long, the last ones.
    """
    tail = tail[-MOST:]
    size = _choose_length(text, tail)
    if not size:
        return []
    key, found, end = tail[-size:], list[Occurrence](), len(text)
    while len(found) < OCCURRENCES and (start := text.rfind(key, 0, end)) >= 0:
        end = start + size - 1
        if start + size != but:
            line = text[start + size : start + size + LONGEST_LINE + 1].partition("\n")[0]
            found.append(Occurrence(_count_same(text, start, tail, size), line, None))
    return found[::-1]


def _choose_length(text: str, tail: str) -> int:
    """The shortest end of `tail`, LEAST at the least, that `text` has at most OCCURRENCES times; 0 where it has none.

    Where it has even the longest one that it has more often, that one.
    """
    if len(tail) < LEAST or tail[-LEAST:] not in text:
        return 0
    lengths = range(LEAST, len(tail))  # the count falls as the length grows
    length = LEAST + bisect_left(lengths, True, key=lambda length: text.count(tail[-length:]) <= OCCURRENCES)
    while tail[-length:] not in text:
        length -= 1
    return length


def _count_same(text: str, start: int, tail: str, size: int) -> int:
    """Characters before `start + size` that are as the tail's last ones, of which `size` are known to be."""
    limit = min(len(tail), start + size)
    while size < limit and text[start - 1] == tail[-size - 1]:
        start, size = start - 1, size + 1
    return size


def pool(occurrences: Iterable[Occurrence], suffix: str) -> list[Match]:
    """The LINES different ones of those that end as the cursor's line already does, the longest match first.

    What the line already has behind the cursor is left away. Of equally long ones the order counts.
    """
    rest = suffix.partition("\n")[0].rstrip()
    votes = dict[str, int]()
    longest = dict[str, Occurrence]()
    total = 0
    for each in occurrences:
        total += (vote := each.length**3)
        line = each.line.rstrip()
        if len(line) > LONGEST_LINE or not line.endswith(rest):
            continue
        line = line.removesuffix(rest)
        votes[line] = votes.get(line, 0) + vote
        if line not in longest or each.length > longest[line].length:
            longest[line] = each
    best = heapq.nlargest(LINES, longest, key=lambda line: longest[line].length)
    return [
        Match(line, longest[line].length, votes[line] / total, first=not place, path=longest[line].path)
        for place, line in enumerate(best)
    ]
