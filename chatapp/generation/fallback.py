"""A session that outlives its backend: when one fails, the next takes over where it stopped."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from backends import Session, check_call, check_parents, check_rewind
from backends.rereading import Foreseeing, RememberingSession, replay
from model_store import StoreError

Opener = Callable[[], Session]
Result = TypeVar("Result")


class FallbackSession(RememberingSession):
    """The first of several sessions that works; it remembers the tokens, so that another can read them again."""

    def __init__(self, openers: Sequence[Opener], on_fallback: Callable[[str], object]):
        """Open the first that can be; `on_fallback` is told each time another one has to be taken, and why."""
        self.others, self.on_fallback = list(openers), on_fallback
        self.rows = []
        self.first = 0
        """Tokens of the first call: an encoder-decoder encodes just these."""
        self.session = self.open_next()

    def expect(self, length: int) -> None:
        if isinstance(self.session, Foreseeing):
            self.session.expect(length)

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        logits = self.attempt(lambda session: session.forward(tokens, last))
        if not self.rows:
            self.first = count
        self.remember(tokens)
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
                replay(session, self.rows, self.first)
                return session
            except StoreError:  # the next one would meet it, too: a disk that is full, a checkpoint that is damaged
                raise
            except Exception as error:  # a foreign runtime raises what it likes
                if not self.others:
                    raise
                self.on_fallback(str(error))
