"""Sessions of decoders with recurrent layers, whose states can only go back to where a copy was kept."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from backends import KeyValues, Session
from backends.forgetful import ForgetfulSession
from backends.rereading import PART

MOST = 8
"""Most copies of states kept for a text, each as large as the states of all layers."""
BUDGET = 1 << 28
"""Bytes that the copies take together, where there are more than two."""

AFTER = "after"
"""The name in an export of the number of tokens that its states have read."""
States = Mapping[str, np.ndarray]
"""The states of all layers by name, (rows, ...)."""


class Recurrent(Session, Protocol):
    """A session with recurrent states, which its own `rewind` leaves as they are."""

    def states(self) -> States:
        """Copies of the states after what has been read."""

    def put(self, states: States) -> None:
        """Set the states to copies taken at the same length."""


class RecurrentSession(ForgetfulSession):
    """Keeps copies of the states to rewind to.

    They are made before each call of several tokens, which may be a draft or a part of a prompt, and every `PART`
    tokens.
    """

    session: Recurrent
    border, long = 0, False

    def __init__(self, session: Recurrent):
        super().__init__(session)
        self.recurrent = True
        self.kept: dict[int, States] = {}
        """The states that are kept, by the number of tokens that had been read."""

    def read(self, text: np.ndarray, last: int = 1) -> np.ndarray:
        """Read the next tokens, after keeping a copy of the states in case they are taken back."""
        begun, single = self.session.length, text.shape[1] == 1
        if begun and begun not in self.kept and not (single and begun - max(self.kept, default=0) < PART):
            self.kept[begun] = self.session.states()
            while len(self.kept) > 2 and (len(self.kept) > MOST or self.size > BUDGET):
                del self.kept[least_useful(sorted(self.kept))]
        try:
            return self.session.forward(text, last)
        except Exception:  # the states may be ahead of the cache
            self.go_back(begun)
            raise

    @property
    def size(self) -> int:
        """Bytes of all copies."""
        return sum(values.nbytes for states in self.kept.values() for values in states.values())

    def place_before(self, length: int) -> int:
        return max((place for place in self.kept if place <= length), default=0)

    def go_back(self, length: int) -> None:
        super().go_back(length)
        self.kept = {place: states for place, states in self.kept.items() if place <= length}
        if place := self.session.length:
            self.session.put(self.kept[place])

    def reorder(self, parents: Sequence[int]) -> None:
        super().reorder(parents)
        chosen = list(parents)
        self.kept = {
            place: {name: values[chosen] for name, values in states.items()} for place, states in self.kept.items()
        }

    def serves(self, found: KeyValues, length: int) -> bool:
        return bool(length == found[AFTER])

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.kept = {}
        super().restore(tokens, found)


def least_useful(places: Sequence[int]) -> int:
    """The place whose copy saves least: the gap it closes, relative to its distance from the end."""
    around = zip([0, *places], places, places[1:], strict=False)
    gaps = {at: (after - before) / (places[-1] - before) for before, at, after in around}
    return min(gaps, key=lambda at: gaps[at])
