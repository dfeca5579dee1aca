"""Sessions of decoders whose layers keep states: these go on with each token, and back only to where one was kept."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from backends import KeyValues, Session
from backends.forgetful import ForgetfulSession
from backends.rereading import PART

MOST = 8
"""Kept states of a text, each as large as those of all layers, whatever the text's length."""
BUDGET = 1 << 28
"""Bytes that they take together, where there are more than two."""

AFTER = "after"
"""What is exported of a row has by this name how many tokens its states have read."""
States = Mapping[str, np.ndarray]
"""The states of all layers by name, (rows, ...)."""


class Recurrent(Session, Protocol):
    """A session with states: `rewind` takes back what is cached, but not these."""

    def states(self) -> States:
        """Copies of the states after what has been read."""

    def put(self, states: States) -> None:
        """Go on with states that were given after as many tokens."""


class RecurrentSession(ForgetfulSession):
    """A session whose states are kept where several tokens at once begin, which may be drafts or a prompt's part.

    And every `PART` tokens.
    """

    session: Recurrent
    border, long = 0, False

    def __init__(self, session: Recurrent):
        super().__init__(session)
        self.recurrent = True
        self.kept: dict[int, States] = {}
        """By how many tokens had been read."""

    def read(self, text: np.ndarray, last: int = 1) -> np.ndarray:
        """Let the session read what comes next, and keep the states before it, should it be taken back."""
        begun, single = self.session.length, text.shape[1] == 1
        if begun and begun not in self.kept and not (single and begun - max(self.kept, default=0) < PART):
            self.kept[begun] = self.session.states()
            while len(self.kept) > 2 and (len(self.kept) > MOST or self.size > BUDGET):
                del self.kept[least_useful(sorted(self.kept))]
        try:
            return self.session.forward(text, last)
        except Exception:  # states may be ahead of what is cached
            self.go_back(begun)
            raise

    @property
    def size(self) -> int:
        """Bytes that the kept states take."""
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
    """The place without which least is read twice: those near the end of a text are taken back to more often."""
    around = zip([0, *places], places, places[1:], strict=False)
    gaps = {at: (after - before) / (places[-1] - before) for before, at, after in around}
    return min(gaps, key=lambda at: gaps[at])
