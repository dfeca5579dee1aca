"""Sessions whose layers with windows let go of what they see no more: these go back only to where enough is held."""

from typing import Protocol

import numpy as np

from backends import KeyValues, Session
from backends.forgetful import ForgetfulSession
from backends.recurrent import least_useful

STRIDE = 256
"""Tokens that are let go of, and left out of what a graph is shown, at a time."""
RECENT = 4 * STRIDE
"""Tokens before what the window sees that are held, too: answers are taken back more often than long texts."""
APART = 8 * STRIDE
"""Tokens from one place to the next that a text can be taken back to, at least; twice as far as the window sees."""
MOST = 8
"""Such places."""
BEGIN = "begin"
"""What is exported of a row has by this name which token layers with windows hold first, where some are let go of."""


def hidden(length: int, window: int) -> int:
    """Tokens at the beginning of so many that no layer with this window sees, in whole strides."""
    return max(length + 1 - window, 0) // STRIDE * STRIDE


def first_held(length: int, window: int) -> int:
    """The first of so many tokens that is held in any case."""
    return max(hidden(length, window) - RECENT, 0)


def export_begin(begin: int) -> dict[str, np.ndarray]:
    """From which token on layers with windows hold what is exported, where that is not the first."""
    return {BEGIN: np.array(begin)} if begin else {}


def read_begin(found: KeyValues) -> int:
    """The same, of what was exported."""
    return int(found.get(BEGIN, 0))


class Held:
    """Which tokens of a text layers with windows hold: all from one on and, before it, what some places need.

    A text can go on from a place if the tokens that the window sees from there are held.
    """

    def __init__(self, window: int):
        self.window = window
        self.sight = -(-(window - 1) // STRIDE) * STRIDE
        """Tokens that are held before a place, in whole strides."""
        self.apart = max(APART, 2 * self.sight)
        self.begin = 0
        self.places: list[int] = []

    def has(self, start: int) -> bool:
        """Whether the stride that begins with this token is held."""
        return start >= self.begin or any(place - self.sight <= start < place for place in self.places)

    def parts(self, length: int) -> list[slice]:
        """What is held of so many tokens."""
        before = [slice(place - self.sight, min(place, self.begin)) for place in self.places]
        return [*before, slice(self.begin, length)]

    def advance(self, length: int) -> list[slice]:
        """Let go of what texts of `length` tokens and more need not, stride by stride."""
        begin = first_held(length, self.window)
        if begin <= self.begin:
            return []
        before = [start for start in range(0, begin, STRIDE) if self.has(start)]
        first = max(self.places, default=0) + self.apart
        more = range(first, begin + self.sight, self.apart)
        self.places += [place for place in more if place - self.sight >= self.begin]
        self.begin = begin
        while len(self.places) > MOST:
            self.places.remove(least_useful(self.places))
        return [slice(start, start + STRIDE) for start in before if not self.has(start)]

    def nearest(self, length: int) -> int:
        """The most tokens, `length` or fewer, that a text can be taken back to."""
        if not self.begin or hidden(length, self.window) >= self.begin:
            return length
        return max((place for place in self.places if place <= length), default=0)

    def serves(self, found: KeyValues, length: int) -> bool:
        """Whether what was exported is enough for a text of so many tokens."""
        return hidden(length, self.window) >= read_begin(found)

    def go_back(self, length: int) -> None:
        """Only `length` tokens are left, which `nearest` gave."""
        if not length:
            self.begin, self.places = 0, []
        elif hidden(length, self.window) < self.begin:
            self.begin, self.places = length - self.sight, [place for place in self.places if place < length]


class Sliding(Session, Protocol):
    """A session that lets go of tokens: it can be taken back to where what it holds says."""

    holds: Held


class SlidingSession(ForgetfulSession):
    """A session that remembers its tokens, and reads again what its layers with windows have let go of."""

    session: Sliding

    def place_before(self, length: int) -> int:
        return self.session.holds.nearest(length)
