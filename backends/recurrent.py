"""Sessions of decoders whose layers keep states: these go on with each token, and back only to where one was kept."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from backends import Batch, KeyValues, Session, check_call, check_parents, check_rewind
from backends.rereading import PART, RememberingSession, parts

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


class RecurrentSession(RememberingSession):
    """A session that remembers its tokens, and reads again those that came after the last state that is kept.

    A state is kept where several tokens at once begin, which may be drafts or a prompt's part, and every `PART` tokens.
    """

    session: Recurrent
    recurrent = True
    border, long = 0, False

    def __init__(self, session: Recurrent):
        self.session, self.rows = session, []
        self.kept: dict[int, States] = {}
        """By how many tokens had been read."""

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        if self.length - self.session.length + count > PART:
            self.catch_up()
        missing = [row[self.session.length :] for row in self.rows] or [[]] * batch
        text = np.concatenate([np.array(missing, np.int64).reshape(batch, -1), tokens], axis=1)
        logits = self.read(text, last)
        self.remember(tokens)
        return logits

    def catch_up(self) -> None:
        """Read again what was read before and is remembered alone."""
        begun = self.session.length
        text = np.array([row[begun:] for row in self.rows], np.int64)
        for start, end in parts(self.length - begun):
            self.read(text[:, start:end])

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

    def rewind(self, length: int) -> None:
        check_rewind(length, self.length)
        self.rows = [row[:length] for row in self.rows] if length else []
        if length < self.session.length:
            self.go_back(length)

    def go_back(self, length: int) -> None:
        """Put back the last states that were kept within the first `length` tokens."""
        self.kept = {place: states for place, states in self.kept.items() if place <= length}
        place = max(self.kept, default=0)
        self.session.rewind(place)
        if place:
            self.session.put(self.kept[place])

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        self.catch_up()
        self.session.reorder(parents)
        chosen = list(parents)
        self.kept = {
            place: {name: values[chosen] for name, values in states.items()} for place, states in self.kept.items()
        }
        self.rows = [list(self.rows[parent]) for parent in parents]

    def export(self, row: int) -> KeyValues | None:
        self.catch_up()
        return self.session.export(row)

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        """Put back what was exported of these tokens; where more followed them, its states are of no use."""
        self.rows, self.kept = [list(tokens)], {}
        if len(tokens) == found[AFTER]:
            self.session.restore(tokens, found)
        else:
            self.session.rewind(0)

    def open_batch(self) -> Batch | None:
        return self.session.open_batch()


def least_useful(places: Sequence[int]) -> int:
    """The place without which least is read twice: those near the end of a text are taken back to more often."""
    around = zip([0, *places], places, places[1:], strict=False)
    gaps = {at: (after - before) / (places[-1] - before) for before, at, after in around}
    return min(gaps, key=lambda at: gaps[at])
