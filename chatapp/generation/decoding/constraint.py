"""What a reply may say: constraints on its next token."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chatapp.generation.text.tokenizer import Tokenizer


class Constraint(Protocol):
    """Tells which tokens may follow."""

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        """Ids of those that may follow these tokens of the reply; None: all."""

    def copy(self) -> "Constraint":
        """One for a reply that goes on otherwise from here."""


class Typed:
    """What has been typed already of the word that the reply begins with: it is spelt first."""

    def __init__(self, tokenizer: Tokenizer, tokens: Sequence[int]):
        """`tokens` spell it as it was typed."""
        self.tokenizer = tokenizer
        self.text = b"".join(map(tokenizer.content, tokens))

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        rest = self.rest(tokens)
        return self.tokenizer.spelling.agreeing(rest) if rest else None

    def copy(self) -> "Typed":
        return self  # remembers nothing

    def rest(self, tokens: Sequence[int]) -> bytes:
        """What the tokens of a reply leave to be spelt."""
        spelt = 0
        for token in tokens:
            if spelt >= len(self.text):
                break
            spelt += len(self.tokenizer.content(token))
        return self.text[spelt:]


def restrict(logits: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """The logits (vocab,) with minus infinity for what is not allowed; these themselves if all is."""
    if allowed is None:
        return logits
    restricted = np.full_like(logits, -np.inf)
    restricted[allowed] = logits[allowed]
    return restricted
