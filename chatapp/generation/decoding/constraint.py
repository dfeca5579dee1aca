"""Constraints on a reply's next token."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chatapp.generation.decoding.candidates import Top
from chatapp.generation.text.thinking import Channels
from chatapp.generation.text.tokenizer import Tokenizer


class Constraint(Protocol):
    """Tells which tokens may follow."""

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        """The tokens that may follow, as ids or as (vocab,) bool; None: all."""

    def forced(self, tokens: Sequence[int]) -> Sequence[int]:
        """The tokens that must follow, in order, as far as known."""

    def ends(self, tokens: Sequence[int]) -> bool:
        """Whether the reply is complete, and nothing may follow."""

    def copy(self) -> "Constraint":
        """A copy for another continuation of the reply."""


class Lenient:
    """Base of constraints that force nothing and never end the reply."""

    def forced(self, tokens: Sequence[int]) -> Sequence[int]:
        return ()

    def ends(self, tokens: Sequence[int]) -> bool:
        return False


class Typed(Lenient):
    """The reply begins with a word that was partly typed, which must be spelt first."""

    def __init__(self, tokenizer: Tokenizer, tokens: Sequence[int]):
        """`tokens` spell the typed part."""
        self.tokenizer = tokenizer
        self.text = b"".join(map(tokenizer.content, tokens))

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        rest = self.rest(tokens)
        return self.tokenizer.spelling.agreeing(rest) if rest else None

    def copy(self) -> "Typed":
        return self  # it has no state

    def rest(self, tokens: Sequence[int]) -> bytes:
        """The typed bytes that the reply has not spelt yet."""
        spelt = 0
        for token in tokens:
            if spelt >= len(self.text):
                break
            spelt += len(self.tokenizer.content(token))
        return self.text[spelt:]


class TypedFirst(Lenient):
    """A rule for what follows the typed part; it applies once that is spelt."""

    def __init__(self, typed: Typed, rule: Constraint):
        self.typed, self.rule = typed, rule

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        ruled, agreeing = self.rule.allowed(tokens), self.typed.allowed(tokens)  # a rule must see every token
        if agreeing is None or ruled is None:
            return ruled if agreeing is None else agreeing
        both = np.intersect1d(agreeing, np.flatnonzero(ruled) if ruled.dtype == bool else ruled)
        return both if both.size else agreeing

    def copy(self) -> "TypedFirst":
        return TypedFirst(self.typed, self.rule.copy())


class Continued:
    """The constraint of a reply that began with some tokens."""

    def __init__(self, whole: Constraint, begun: Sequence[int]):
        self.whole, self.begun = whole, list(begun)

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        return self.whole.allowed([*self.begun, *tokens])

    def forced(self, tokens: Sequence[int]) -> Sequence[int]:
        return self.whole.forced([*self.begun, *tokens])

    def ends(self, tokens: Sequence[int]) -> bool:
        return self.whole.ends([*self.begun, *tokens])

    def copy(self) -> "Continued":
        return Continued(self.whole.copy(), self.begun)


class Following:
    """Base of constraints that read a reply token by token and tell its thinking apart."""

    def __init__(self, tokenizer: Tokenizer, thinking: str):
        """The prompt may have opened the `thinking`."""
        self.tokenizer, self.thinking = tokenizer, thinking
        self.start()

    def start(self) -> None:
        """Reset: nothing has been read."""
        self.read: list[int] = []
        self.detokenizer, self.channels = self.tokenizer.detokenizer(), Channels()
        self.channels.add(self.thinking)

    def follow(self, tokens: Sequence[int]) -> None:
        """Read new tokens of the reply, or all if it has changed."""
        if list(tokens[: len(self.read)]) != self.read:
            self.start()
        for place in range(len(self.read), len(tokens)):
            self.read.append(tokens[place])
            self.take(place, tokens)

    def take(self, place: int, tokens: Sequence[int]) -> None:
        """Process the newest token, at `place` of the reply."""
        raise NotImplementedError


NEVER = np.float32(-np.inf)


def narrow(top: Top | None, allowed: np.ndarray) -> Top | None:
    """The largest logits that are allowed, as far as known; None if none is."""
    if top is None or allowed.dtype != bool:
        return None
    tokens, logits = top
    kept = allowed[tokens]
    return (tokens[kept], logits[kept]) if kept.any() else None


def restrict(logits: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """The logits (vocab,) with minus infinity for what is not allowed; the same array if all is."""
    if allowed is None:
        return logits
    restricted = np.full_like(logits, NEVER)
    if allowed.dtype == bool:
        np.copyto(restricted, logits, where=allowed)  # three times as fast as np.where
    else:
        restricted[allowed] = logits[allowed]
    return restricted
