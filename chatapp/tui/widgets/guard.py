"""The last look at each row before it reaches the terminal: whatever widget made it, it is text, and no wider."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from chatapp.text.printable import FLOOD, LONGEST_RUN, printable

JOINER: Final = "\u200d"
JOINED: Final = re.compile(
    "[\u0600-\u109f\u1700-\u1cff\u2190-\u2bff\U00011000-\U00011fff\U0001f000-\U0001faff].*", re.DOTALL
)
"""Characters joined to the one before, of scripts and emoji: no wider in theory, but terminals draw them."""
LONGEST_CHAIN: Final = 3
"""Times that something is joined: enough for the largest families among emoji."""
HIDING: Final = "\N{REPLACEMENT CHARACTER}"
_LEADING: Final = re.compile(f"(?:{JOINER}.?)+", re.DOTALL)


def guard_text(text: str) -> str:
    """Guard a part of a row: it stays as wide, but without what `printable` shows in other ways."""
    if text.isprintable() and not FLOOD.search(text):
        return text
    if found := _LEADING.match(text):
        text = text[found.end() :]
    spans = split_graphemes(text)[0]
    return "".join(cluster(text[start : min(end, start + 4 * LONGEST_RUN)], width) for start, end, width in spans)


@lru_cache(4096)
def cluster(text: str, width: int) -> str:
    """Guard what readers see as one character, which stays as wide as it was."""
    first, *joined = text.rstrip(JOINER).split(JOINER)
    if any(part[:1].isalnum() and not JOINED.match(part) for part in joined):
        return HIDING * width
    text = JOINER.join([first, *filter(JOINED.match, joined[:LONGEST_CHAIN])])
    kept = "".join(letter for letter in text if printable(letter) == letter and letter not in "\n\t")
    kept = printable(kept[: 1 + LONGEST_RUN]).rstrip(JOINER)  # which would hide what follows
    return kept if cell_len(kept) == width else HIDING * width


class Guard(LineFilter):
    """Takes out what a terminal would obey; texts of others are made printable before, so that nothing is hidden."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(text.isascii() and text.isprintable() for text, _, _ in segments):
            return segments
        return [Segment(guard_text(text), style) for text, style, _ in segments]


GUARD = Guard()
