"""Sessions whose sliding-window layers drop old tokens, so that they can only rewind to some places."""

from typing import Protocol

import numpy as np

from backends import KeyValues, Session
from backends.forgetful import ForgetfulSession
from backends.recurrent import least_useful

STRIDE = 256
"""Tokens that are dropped, and hidden from the graph, at a time."""
RECENT = 4 * STRIDE
"""Tokens before the window that are also kept, since most rewinds are short."""
APART = 8 * STRIDE
"""Least distance between two places to rewind to; at least twice the window."""
MOST = 8
"""Most places to rewind to."""
BEGIN = "begin"
"""The name in an export of the first token that layers with windows still hold, if it is not 0."""


def hidden(length: int, window: int) -> int:
    """How many of the first of `length` tokens are outside this window, in whole strides."""
    return max(length + 1 - window, 0) // STRIDE * STRIDE


def first_held(length: int, window: int) -> int:
    """The first token that is always kept in a text of `length` tokens."""
    return max(hidden(length, window) - RECENT, 0)


def export_begin(begin: int) -> dict[str, np.ndarray]:
    """The entry of an export that says where windowed layers begin; none if at 0."""
    return {BEGIN: np.array(begin)} if begin else {}


def read_begin(found: KeyValues) -> int:
    """Where the windowed layers of an export begin."""
    return int(found.get(BEGIN, 0))


class Held:
    """Which tokens windowed layers hold: all from `begin` on, and before it what each place to rewind to needs.

    A text can be continued at a place if the tokens that the window sees from there are held.
    """

    def __init__(self, window: int):
        self.window = window
        self.sight = -(-(window - 1) // STRIDE) * STRIDE
        """Tokens held before a place: the window, in whole strides."""
        self.apart = max(APART, 2 * self.sight)
        self.begin = 0
        self.places: list[int] = []

    def has(self, start: int) -> bool:
        """Whether the stride that starts at token `start` is held."""
        return start >= self.begin or any(place - self.sight <= start < place for place in self.places)

    def parts(self, length: int) -> list[slice]:
        """The held parts of a text of `length` tokens."""
        before = [slice(place - self.sight, min(place, self.begin)) for place in self.places]
        return [*before, slice(self.begin, length)]

    def advance(self, length: int) -> list[slice]:
        """Move `begin` on for a text of `length` tokens; return the strides that are no longer held."""
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
        """The largest length, at most `length`, that can be rewound to."""
        if not self.begin or hidden(length, self.window) >= self.begin:
            return length
        return max((place for place in self.places if place <= length), default=0)

    def serves(self, found: KeyValues, length: int) -> bool:
        """Whether an export holds enough for a text of `length` tokens."""
        return hidden(length, self.window) >= read_begin(found)

    def go_back(self, length: int) -> None:
        """Rewind to a length that `nearest` returned."""
        if not length:
            self.begin, self.places = 0, []
        elif hidden(length, self.window) < self.begin:
            self.begin, self.places = length - self.sight, [place for place in self.places if place < length]


class Sliding(Session, Protocol):
    """A session that drops tokens outside the windows."""

    holds: Held


class SlidingSession(ForgetfulSession):
    """Remembers its tokens, and reads again those that its windowed layers have dropped."""

    session: Sliding

    def place_before(self, length: int) -> int:
        return self.session.holds.nearest(length)
