"""What sessions share: how they read tokens and count those in their caches, and how they are rewound."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from backends import BackendError, Batch, KeyValues, Placement, Top, check_call, check_parents, check_rewind


class CachedSession:
    """A session that counts what is in its cache, row by row the same."""

    whole_prompts = False
    rows_apart = False
    recurrent = False
    token_bytes = 0
    top: Top | None = None
    context_length: int
    vocab_size: int
    placement: Placement
    start_token = 0
    """With an encoder: what stands before the answer's first token."""
    cached = 0
    """Tokens that the decoder sees in every row."""
    held_rows = 0
    """Rows that the cache has, or had when it was emptied."""
    read_ahead = 0
    """Tokens of the prompt beside the one in whose place the decoder's cache has the start token."""
    expected = 0
    """Tokens for which the next call makes room."""

    @property
    def length(self) -> int:
        return self.cached + self.read_ahead

    @property
    def batch(self) -> int:
        return self.held_rows if self.cached else 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        batch, count = tokens.shape
        check_call(self, batch, count, last)
        ahead = self.read_ahead
        if self.whole_prompts and not self.cached:
            self.read(tokens)
            tokens, ahead = np.full((batch, 1), self.start_token), count - 1
        logits = self.extend(tokens, last)
        self.cached, self.read_ahead, self.held_rows = self.cached + tokens.shape[1], ahead, batch
        return logits

    @abstractmethod
    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        """What `forward` returns of tokens (batch, count) after those that are `cached`, which it counts itself."""

    def read(self, prompt: np.ndarray) -> None:
        """Let the encoder, where there is one, read prompts (batch, count)."""

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        self.take_rows(list(parents))
        self.held_rows = len(parents)

    @abstractmethod
    def take_rows(self, parents: list[int]) -> None:
        """Let row i of the cache be what row `parents[i]` was."""

    def expect(self, length: int) -> None:
        """The parts of a text are read next, up to `length` tokens: what makes room for it at once copies nothing."""
        self.expected = min(length, self.context_length)

    def rewind(self, length: int) -> None:
        check_rewind(length, self.length, self.read_ahead + 1)
        self.read_ahead = self.read_ahead if length else 0
        self.cached = length - self.read_ahead

    def nearest(self, length: int) -> int:
        return length

    def export(self, row: int) -> KeyValues | None:
        """What a cache holds that cannot be put back."""
        return None

    def serves(self, found: KeyValues, length: int) -> bool:
        return True

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        """Refuse what this session never exported."""
        raise BackendError("this session cannot put back what was cached: let it read the tokens again")

    def open_batch(self) -> Batch | None:
        """No batch: rows must be of one length here."""
        return None
