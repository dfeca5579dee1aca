"""Longest matches: lines that elsewhere followed the text before the cursor."""

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chatapp.completion.place import Occurrence, Place

LEAST = 3
"""Least characters before the cursor that must match."""
MOST = 100
"""Longer matches tell no more."""
OCCURRENCES = 400
"""Most occurrences per text or folder, those with the longest matches."""
LINES = 6
"""Most distinct lines from the file, and from others."""
LONGEST_LINE = 200
"""Longer lines, in characters, would not be written again."""


@dataclass(frozen=True)
class Match:
    """A line that followed the same text elsewhere."""

    line: str
    """What followed, without trailing white space."""
    length: int
    """The length of its longest match."""
    share: float
    """Its share among all lines that followed, each weighted by the cube of its match length."""
    first: bool
    """Whether no match is longer, and none of the same length nearer."""
    path: Path | None = None
    """The other file where it was found."""


def matches_in_file(place: Place) -> list[Match]:
    """Lines that followed the same text in this file, before or after the cursor; longest match first."""
    tail = place.prefix[-MOST:]
    before = find_occurrences(place.prefix, tail, but=len(place.prefix))
    after = find_occurrences(place.suffix, tail)
    return pool([*reversed(before), *after], place.suffix)


def matches_elsewhere(place: Place) -> list[Match]:
    """Lines that followed the same text in other files, open in the editor or in the folder."""
    tail = place.prefix[-MOST:]
    found = [each._replace(path=file.path) for file in place.open_files for each in find_occurrences(file.text, tail)]
    if place.folder:
        seen = {file.path for file in place.open_files}
        found += [each for each in place.folder.occurrences(tail, place.path) if each.path not in seen]
    return pool(found, place.suffix)


def find_occurrences(text: str, tail: str, *, but: int = -1) -> list[Occurrence]:
    """Where `text` contains the longest suffixes of `tail`, in order; the one that ends at index `but` is left out.

    The suffix is as long as needed to have at most OCCURRENCES, or the last of these where more are equally long.
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
    """The shortest suffix of `tail`, at least LEAST, that occurs in `text` at most OCCURRENCES times; 0 for none.

    If even the longest suffix in `text` occurs more often, that one.
    """
    if len(tail) < LEAST or tail[-LEAST:] not in text:
        return 0
    lengths = range(LEAST, len(tail))  # the count falls with the length
    length = LEAST + bisect_left(lengths, True, key=lambda length: text.count(tail[-length:]) <= OCCURRENCES)
    while tail[-length:] not in text:
        length -= 1
    return length


def _count_same(text: str, start: int, tail: str, size: int) -> int:
    """How many characters before `start + size` match the end of the tail; `size` are known to."""
    limit = min(len(tail), start + size)
    while size < limit and text[start - 1] == tail[-size - 1]:
        start, size = start - 1, size + 1
    return size


def pool(occurrences: Iterable[Occurrence], suffix: str) -> list[Match]:
    """The LINES distinct lines that end as the cursor's line already does, longest match first.

    What follows the cursor in its line is removed from them. In case of ties the order counts.
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
