"""What sessions share: counting the tokens in their caches, reading, rewinding."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from backends import BackendError, Batch, KeyValues, Placement, Top, check_call, check_parents, check_rewind


class CachedSession:
    """Base of sessions that count their cached tokens, the same number in every row."""

    whole_prompts = False
    rows_apart = False
    recurrent = False
    token_bytes = 0
    top: Top | None = None
    context_length: int
    vocab_size: int
    placement: Placement
    start_token = 0
    """With an encoder: the token before the answer's first one."""
    cached = 0
    """Tokens in the decoder's cache, in every row."""
    held_rows = 0
    """Rows in the cache, or before it was emptied."""
    read_ahead = 0
    """With an encoder: the prompt's tokens, less the one that stands for the start token in the decoder's cache."""
    expected = 0
    """Tokens that the next call should make room for."""

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
        """Return the logits of `tokens` (batch, count), which follow the `cached` ones; `forward` does the counting."""

    def read(self, prompt: np.ndarray) -> None:
        """Let the encoder read prompts (batch, count)."""

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(parents, self.batch)
        self.take_rows(list(parents))
        self.held_rows = len(parents)

    @abstractmethod
    def take_rows(self, parents: list[int]) -> None:
        """Make row i of the cache what row `parents[i]` was."""

    def expect(self, length: int) -> None:
        """Announce a text of `length` tokens that is read in parts next, so that room is made for it once."""
        self.expected = min(length, self.context_length)

    def rewind(self, length: int) -> None:
        check_rewind(length, self.length, self.read_ahead + 1)
        self.read_ahead = self.read_ahead if length else 0
        self.cached = length - self.read_ahead

    def nearest(self, length: int) -> int:
        return length

    def export(self, row: int) -> KeyValues | None:
        """None: this cache cannot be exported."""
        return None

    def serves(self, found: KeyValues, length: int) -> bool:
        return True

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        """Raise BackendError: this session exports nothing."""
        raise BackendError("this session cannot put back what was cached: let it read the tokens again")

    def open_batch(self) -> Batch | None:
        """None: rows must have one length here."""
        return None
