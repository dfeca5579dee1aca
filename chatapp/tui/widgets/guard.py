"""The last check of each row before it reaches the terminal: it is printable text of the right width."""

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
"""Characters that may be joined to the previous one, in scripts and emoji; anything else would widen the row."""
LONGEST_CHAIN: Final = 3
"""Maximum joins: enough for the largest family emoji."""
HIDING: Final = "\N{REPLACEMENT CHARACTER}"
_LEADING: Final = re.compile(f"(?:{JOINER}.?)+", re.DOTALL)


def guard_text(text: str) -> str:
    """A part of a row without unprintable characters, at the same width."""
    if text.isprintable() and not FLOOD.search(text):
        return text
    if found := _LEADING.match(text):
        text = text[found.end() :]
    spans = split_graphemes(text)[0]
    return "".join(cluster(text[start : min(end, start + 4 * LONGEST_RUN)], width) for start, end, width in spans)


@lru_cache(4096)
def cluster(text: str, width: int) -> str:
    """One grapheme made safe, at the same width."""
    first, *joined = text.rstrip(JOINER).split(JOINER)
    if any(part[:1].isalnum() and not JOINED.match(part) for part in joined):
        return HIDING * width
    text = JOINER.join([first, *filter(JOINED.match, joined[:LONGEST_CHAIN])])
    kept = "".join(letter for letter in text if printable(letter) == letter and letter not in "\n\t")
    kept = printable(kept[: 1 + LONGEST_RUN]).rstrip(JOINER)  # a final joiner would hide what follows
    return kept if cell_len(kept) == width else HIDING * width


class Guard(LineFilter):
    """Removes what a terminal would interpret; foreign text was made printable before, so nothing is lost."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(text.isascii() and text.isprintable() for text, _, _ in segments):
            return segments
        return [Segment(guard_text(text), style) for text, style, _ in segments]


GUARD = Guard()
