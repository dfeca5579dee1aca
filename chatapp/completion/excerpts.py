"""Find excerpts of other files that are most like the text around a cursor: where its rare words occur together."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chatapp.completion.segment import WORD, Segment, word_range
from chatapp.generation import Excerpt

BEFORE, AFTER = 2000, 1000
"""Characters before and after the cursor whose words count."""
SHORTEST = 3
"""Shortest word that counts, in bytes."""
WORDS = 24
"""How many of the rarest words are used, among those that other files have."""
EXCERPTS = 4
"""Most excerpts, each from another file."""
WINDOW = 1500
"""Bytes of an excerpt."""


def words_around(prefix: str, suffix: str) -> frozenset[bytes]:
    """The words in whole lines before and after the cursor's line."""
    before = prefix[: prefix.rfind("\n") + 1][-BEFORE:]
    after = suffix.partition("\n")[2][:AFTER]
    words = WORD.findall(f"{before}\n{after}".encode(errors="replace"))
    return frozenset(word for word in words if len(word) >= SHORTEST and not word.isdigit())


def find_excerpts(segments: Sequence[Segment], words: frozenset[bytes], root: Path, but: Path) -> list[Excerpt]:
    """The parts of other files where most, and the rarest, of the words occur together, best first."""
    sought = sorted(words)
    if not segments or not sought:
        return []
    ranges = np.array([word_range(word) for word in sought], np.uint64)
    lows, highs = ranges[:, 0].astype(np.uint32), (ranges[:, 1] - 1).astype(np.uint32)
    spans = [(segment.keys.searchsorted(lows), segment.keys.searchsorted(highs, "right")) for segment in segments]
    totals = np.sum([last - first for first, last in spans], axis=0)
    files = sum(int(segment.live.sum()) for segment in segments)
    rare = [i for i in np.argsort(totals, kind="stable") if 0 < totals[i] <= max(50, files)][:WORDS]
    if not rare:
        return []
    weights = np.log(1 + files / totals[rare])
    scores = list[tuple[float, Segment, int]]()
    for segment, (first, last) in zip(segments, spans, strict=True):
        ends = np.concatenate([segment.ends[first[i] : last[i]] for i in rare])
        which = np.repeat(np.arange(len(rare)), [last[i] - first[i] for i in rare])
        stands = np.unique(segment.numbers(ends) * len(rare) + which)  # each word once in each file
        score = np.bincount(stands // len(rare), weights[stands % len(rare)], len(segment.paths))
        counts = segment.live & (score > 0)
        scores += [(float(score[n]), segment, int(n)) for n in np.flatnonzero(counts) if segment.paths[n] != but]
    best = sorted(scores, key=lambda each: -each[0])[: 2 * EXCERPTS]
    weight_of = {sought[i]: float(weight) for i, weight in zip(rare, weights, strict=True)}
    windows = [(*find_window(segment.read(n), weight_of), segment.paths[n]) for _, segment, n in best]
    windows.sort(key=lambda each: -each[0])
    return [Excerpt(path.relative_to(root).as_posix(), text) for score, text, path in windows[:EXCERPTS] if score > 0]


def find_window(text: bytes, weights: dict[bytes, float]) -> tuple[float, str]:
    """The part of a text, in whole lines, with the largest sum of distinct words' weights, and that sum."""
    places = [(match.start(), match[0]) for match in WORD.finditer(text) if match[0] in weights]
    best, begin, first = 0.0, 0, 0
    counts = dict[bytes, int]()
    score = 0.0
    for place, word in places:
        counts[word] = counts.get(word, 0) + 1
        score += weights[word] if counts[word] == 1 else 0
        while place - places[first][0] > WINDOW // 2:
            gone = places[first][1]
            counts[gone] -= 1
            score -= weights[gone] if not counts[gone] else 0
            first += 1
        if score > best:
            best, begin = score, places[first][0]
    start = text.rfind(b"\n", 0, max(0, begin - WINDOW // 4)) + 1
    end = start + WINDOW if len(text) > start + WINDOW else len(text)
    end = text.rfind(b"\n", start, end) + 1 or end
    return best, text[start:end].decode(errors="ignore")
