"""A session that outlives its backend: when one fails, the next takes over where it stopped."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from backends import Placement, Session, Top, check_call, check_parents, check_rewind

Opener = Callable[[], Session]
Result = TypeVar("Result")


class FallbackSession:
    """The first of several sessions that works; it remembers the tokens, so that another can read them again."""

    def __init__(self, openers: Sequence[Opener], on_fallback: Callable[[str], object]):
        """Open the first that can be; `on_fallback` is told each time another one has to be taken, and why."""
        self.others, self.on_fallback = list(openers), on_fallback
        self.rows: list[list[int]] = []
        self.first = 0
        """Tokens of the first call: an encoder-decoder encodes just these."""
        self.session = self.open_next()

    @property
    def context_length(self) -> int:
        return self.session.context_length

    @property
    def vocab_size(self) -> int:
        return self.session.vocab_size

    @property
    def placement(self) -> Placement:
        return self.session.placement

    @property
    def top(self) -> Top | None:
        return self.session.top

    @property
    def whole_prompts(self) -> bool:
        return self.session.whole_prompts

    @property
    def length(self) -> int:
        return self.session.length

    @property
    def batch(self) -> int:
        return self.session.batch

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        logits = self.attempt(lambda session: session.forward(tokens, last))
        if not self.rows:
            self.rows, self.first = [[] for _ in tokens], tokens.shape[1]
        for row, more in zip(self.rows, tokens.tolist(), strict=True):
            row += more
        return logits

    def rewind(self, length: int) -> None:
        check_rewind(self, length, self.first if self.whole_prompts else 0)
        self.attempt(lambda session: session.rewind(length))
        self.rows = [row[:length] for row in self.rows] if length else []
        self.first = min(self.first, length)

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(self, parents)
        self.attempt(lambda session: session.reorder(parents))
        self.rows = [list(self.rows[parent]) for parent in parents]

    def attempt(self, act: Callable[[Session], Result]) -> Result:
        """What `act` gives with this session or, if that fails, with the next that can."""
        while True:
            try:
                return act(self.session)
            except Exception as error:  # a foreign runtime raises what it likes
                self.replace(error)

    def replace(self, error: Exception) -> None:
        """Let the next one take over; the same error if there is none."""
        failed = self.session.placement
        if not self.others:
            raise error
        self.on_fallback(f"{failed.backend} failed on {failed.device}: {error}")
        self.session = self.open_next()

    def open_next(self) -> Session:
        """The next session that opens and reads all tokens so far; the last one's error if none does."""
        while True:
            try:
                session = self.others.pop(0)()
                self.replay(session)
                return session
            except Exception as error:  # as above
                if not self.others:
                    raise
                self.on_fallback(str(error))

    def replay(self, session: Session) -> None:
        """Let a fresh session hold the tokens of this one."""
        if not self.rows:
            return
        tokens = np.array(self.rows, np.int64)
        differs = (tokens != tokens[:1]).any(axis=0)
        shared = int(differs.argmax()) if differs.any() else tokens.shape[1]
        if shared < self.first:  # they differed from the beginning
            shared = self.first
            session.forward(tokens[:, :shared])
        else:
            session.forward(tokens[:1, : self.first])
            if shared > self.first:
                session.forward(tokens[:1, self.first : shared])
            session.reorder([0] * len(tokens))
        if shared < tokens.shape[1]:
            session.forward(tokens[:, shared:])
