"""What a reply may say: constraints on its next token."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from chatapp.generation.decoding.candidates import Top
from chatapp.generation.text.thinking import Channels
from chatapp.generation.text.tokenizer import Tokenizer


class Constraint(Protocol):
    """Tells which tokens may follow."""

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        """Ids of those that may follow these tokens of the reply, or (vocab,) bool which do; None: all."""

    def forced(self, tokens: Sequence[int]) -> Sequence[int]:
        """Those that must follow these tokens, one after the other, where that is known."""

    def ends(self, tokens: Sequence[int]) -> bool:
        """Whether the reply is complete with these tokens, and nothing may follow."""

    def copy(self) -> "Constraint":
        """One for a reply that goes on otherwise from here."""


class Lenient:
    """What all constraints have in common that leave it open how the reply goes on, and when it ends."""

    def forced(self, tokens: Sequence[int]) -> Sequence[int]:
        return ()

    def ends(self, tokens: Sequence[int]) -> bool:
        return False


class Typed(Lenient):
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


class TypedFirst(Lenient):
    """A rule for what follows that was typed, which yields to that until it is spelt."""

    def __init__(self, typed: Typed, rule: Constraint):
        self.typed, self.rule = typed, rule

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        ruled, agreeing = self.rule.allowed(tokens), self.typed.allowed(tokens)  # a rule reads every token
        if agreeing is None or ruled is None:
            return ruled if agreeing is None else agreeing
        both = np.intersect1d(agreeing, np.flatnonzero(ruled) if ruled.dtype == bool else ruled)
        return both if both.size else agreeing

    def copy(self) -> "TypedFirst":
        return TypedFirst(self.typed, self.rule.copy())


class Continued:
    """The constraint of a reply that was begun with some tokens."""

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
    """What constraints have in common that read a reply token by token, and tell what is thought in it apart."""

    def __init__(self, tokenizer: Tokenizer, thinking: str):
        """The prompt may have opened the `thinking`."""
        self.tokenizer, self.thinking = tokenizer, thinking
        self.start()

    def start(self) -> None:
        """Nothing of a reply was read."""
        self.read: list[int] = []
        self.detokenizer, self.channels = self.tokenizer.detokenizer(), Channels()
        self.channels.add(self.thinking)

    def follow(self, tokens: Sequence[int]) -> None:
        """Read what is new of a reply, or all of one that has gone on otherwise."""
        if list(tokens[: len(self.read)]) != self.read:
            self.start()
        for place in range(len(self.read), len(tokens)):
            self.read.append(tokens[place])
            self.take(place, tokens)

    def take(self, place: int, tokens: Sequence[int]) -> None:
        """Learn from the token at a place of a reply, the last that was read."""
        raise NotImplementedError


NEVER = np.float32(-np.inf)


def narrow(top: Top | None, allowed: np.ndarray) -> Top | None:
    """The largest of some logits after `restrict`, as far as they are known; None, if none of them is allowed."""
    if top is None or allowed.dtype != bool:
        return None
    tokens, logits = top
    kept = allowed[tokens]
    return (tokens[kept], logits[kept]) if kept.any() else None


def restrict(logits: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """The logits (vocab,) with minus infinity for what is not allowed; these themselves if all is."""
    if allowed is None:
        return logits
    restricted = np.full_like(logits, NEVER)
    if allowed.dtype == bool:
        np.copyto(restricted, logits, where=allowed)  # a third of the time that np.where takes
    else:
        restricted[allowed] = logits[allowed]
    return restricted
