"""Sessions of decoders whose rotary positions turn otherwise in long texts: these read a text again at the border."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from backends import Batch, KeyValues, Session, Top, check_call, check_parents, check_rewind

PART = 256
"""Tokens of a text that are read at a time: more take longer each, as scores grow, and memory for these."""


class TwoRanges(Session, Protocol):
    """A session that can read a text as a short or as a long one."""

    border: int
    """Tokens up to which a text is a short one; 0 where all are alike."""
    long: bool
    """How the next calls read; changed only while nothing is cached."""


@runtime_checkable
class Foreseeing(Protocol):
    """A session that makes room for a text whose parts it will read, and reads them rightly at once."""

    def expect(self, length: int) -> None:
        """The next calls make `length` tokens of what is cached."""


def rereading(session: TwoRanges) -> Session:
    """The session, with texts read again where they cross its border, if it has one."""
    return RereadingSession(session) if session.border else session


class RememberingSession:
    """A session in front of another one, whose tokens it remembers."""

    session: Session
    rows: list[list[int]]
    """The tokens of each row, whatever the session behind has cached of them."""

    def __init__(self, session: Session):
        self.rows = []
        self.go_before(session)

    def go_before(self, session: Session) -> None:
        """Let this one be the session behind, whose facts are the same from now on."""
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
        """Tokens (batch, count) were read."""
        self.rows = self.rows or [[] for _ in tokens]
        for row, more in zip(self.rows, tokens.tolist(), strict=True):
            row += more


class RereadingSession(RememberingSession):
    """A session that remembers its tokens, and reads them again as a long text or a short one when they become it.

    Keys and values of one range are of no use in the other: Phi3ForCausalLM of transformers reads again too.
    """

    session: TwoRanges

    def __init__(self, session: TwoRanges):
        super().__init__(session)
        self.expected = 0
        """Tokens of the text whose parts are being read."""

    def expect(self, length: int) -> None:
        super().expect(length)
        self.expected = length

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        long = max(self.length + count, self.expected) > self.session.border > 0
        lost = self.session.border and self.session.length != self.length  # in a failure while reading again
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
    """Let a session that has cached nothing read rows of tokens; an encoder reads the `first` of them as a whole."""
    if not rows:
        return
    tokens = np.array(rows, np.int64)
    differs = (tokens != tokens[:1]).any(axis=0)
    shared = int(differs.argmax()) if differs.any() else tokens.shape[1]
    if shared < first:  # they differed from the beginning
        shared = first
        session.forward(tokens[:, :first])
    elif shared:
        for start, end in parts(shared, first):
            session.forward(tokens[:1, start:end])
        session.reorder([0] * len(tokens))
    for start, end in parts(tokens.shape[1] - shared):
        session.forward(tokens[:, shared + start : shared + end])


def parts(count: int, first: int = 0) -> list[tuple[int, int]]:
    """Where the parts of so many tokens begin and end, the `first` of them in one."""
    ends = [*([first] if first else []), *range(first + PART, count, PART), count]
    return [(start, end) for start, end in zip([0, *ends], ends, strict=False) if start < end]
