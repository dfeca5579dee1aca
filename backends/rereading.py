"""Sessions of LongRoPE decoders, which read a text again when it crosses the border between short and long."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from backends import Batch, KeyValues, Session, Top, check_call, check_parents, check_rewind

PART = 256
"""Tokens read per call: longer parts take longer per token and more memory, as the scores grow."""


class TwoRanges(Session, Protocol):
    """A session that can compute with the short or the long frequencies."""

    border: int
    """Texts of up to this many tokens are short; 0: there is no difference."""
    long: bool
    """Whether calls use the long frequencies; changed only while the cache is empty."""


@runtime_checkable
class Foreseeing(Protocol):
    """A session that can be told of a long text before its parts are read."""

    def expect(self, length: int) -> None:
        """Announce that the next calls will fill the cache up to `length` tokens."""


def rereading(session: TwoRanges) -> Session:
    """Wrap the session so that texts are read again at its border, if it has one."""
    return RereadingSession(session) if session.border else session


class RememberingSession:
    """A session in front of another one that remembers the tokens it was given."""

    session: Session
    rows: list[list[int]]
    """The tokens of each row, whether or not the session behind has them cached."""

    def __init__(self, session: Session):
        self.rows = []
        self.go_before(session)

    def go_before(self, session: Session) -> None:
        """Set the session behind, and take over its facts."""
        self.session, self.placement = session, session.placement
        self.context_length, self.vocab_size = session.context_length, session.vocab_size
        self.whole_prompts, self.rows_apart = session.whole_prompts, session.rows_apart
        self.recurrent, self.token_bytes = session.recurrent, session.token_bytes

    @property
    def top(self) -> Top | None:
        return self.session.top

    @property
    def length(self) -> int:
        return len(self.rows[0]) if self.rows else 0

    @property
    def batch(self) -> int:
        return len(self.rows)

    def expect(self, length: int) -> None:
        if isinstance(self.session, Foreseeing):
            self.session.expect(length)

    def export(self, row: int) -> KeyValues | None:
        return self.session.export(row)

    def nearest(self, length: int) -> int:
        return self.session.nearest(length)

    def serves(self, found: KeyValues, length: int) -> bool:
        return self.session.serves(found, length)

    def open_batch(self) -> Batch | None:
        return self.session.open_batch()

    def remember(self, tokens: np.ndarray) -> None:
        """Remember tokens (batch, count)."""
        self.rows = self.rows or [[] for _ in tokens]
        for row, more in zip(self.rows, tokens.tolist(), strict=True):
            row += more


class RereadingSession(RememberingSession):
    """Remembers its tokens, and reads them again when the text becomes long or short.

    Keys and values of one range do not fit the other: Phi3ForCausalLM of transformers reads again too.
    """

    session: TwoRanges

    def __init__(self, session: TwoRanges):
        super().__init__(session)
        self.expected = 0
        """Tokens of the announced text, 0 if there is none."""
        self.crossed = False
        """Whether the last call was read in two parts, of which the session behind only knows the second."""

    @property
    def top(self) -> Top | None:
        return None if self.crossed else self.session.top

    def expect(self, length: int) -> None:
        super().expect(length)
        self.expected = length

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        short = self.session.border - self.length
        self.crossed = self.length > 0 and self.expected <= self.session.border and max(count - last, 0) < short < count
        if self.crossed:  # guesses of what follows: each token gets the logits that it gets by itself
            short_logits = self._read(tokens[:, :short], last + short - count).copy()
            return np.concatenate([short_logits, self._read(tokens[:, short:], count - short)], axis=1)
        return self._read(tokens, last)

    def _read(self, tokens: np.ndarray, last: int) -> np.ndarray:
        """`forward` for tokens of one range."""
        count = tokens.shape[1]
        long = max(self.length + count, self.expected) > self.session.border > 0
        lost = self.session.border and self.session.length != self.length  # a failure while rereading
        if long != self.session.long or lost:
            self.session.rewind(0)
            self.session.long = long
            replay(self.session, self.rows)
        logits = self.session.forward(tokens, last)
        self.remember(tokens)
        self.expected = self.expected if self.length < self.expected else 0
        return logits

    def rewind(self, length: int) -> None:
        check_rewind(length, self.length)
        self.expected = 0
        self.session.rewind(min(length, self.session.length))
        self.rows = [row[:length] for row in self.rows] if length else []

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        self.session.reorder(parents)
        self.rows = [list(self.rows[parent]) for parent in parents]

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.rows, self.expected = [], 0
        self.session.restore(tokens, found)
        self.rows = [list(tokens)]


def replay(session: Session, rows: list[list[int]], first: int = 0) -> None:
    """Read rows of tokens into an empty session, a common beginning once; an encoder reads the `first` tokens."""
    if not rows:
        return
    tokens = np.array(rows, np.int64)
    differs = (tokens != tokens[:1]).any(axis=0)
    shared = int(differs.argmax()) if differs.any() else tokens.shape[1]
    if shared < first:  # the prompts differ
        shared = first
        session.forward(tokens[:, :first])
    elif shared:
        for start, end in parts(shared, first):
            session.forward(tokens[:1, start:end])
        session.reorder([0] * len(tokens))
    for start, end in parts(tokens.shape[1] - shared):
        session.forward(tokens[:, shared + start : shared + end])


def parts(count: int, first: int = 0) -> list[tuple[int, int]]:
    """Start and end of the parts of `count` tokens: the `first` ones together, then `PART` at a time."""
    ends = [*([first] if first else []), *range(first + PART, count, PART), count]
    return [(start, end) for start, end in zip([0, *ends], ends, strict=False) if start < end]
