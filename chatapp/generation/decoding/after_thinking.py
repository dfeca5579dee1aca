"""Let a model think before its constrained answer."""

from __future__ import annotations  # as in chatapp.text.child

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chatapp.generation.decoding.constraint import Constraint, Following
from chatapp.generation.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing import Self


class AfterThinking(Following):
    """The constraint of an answer that may follow thinking: it applies after the thinking."""

    def __init__(
        self, answer: Constraint, tokenizer: Tokenizer, vocab_size: int, marks: Sequence[str], *, opened: bool
    ):
        """Thinking may begin with one of the `marks`; if `opened`, the prompt ends with the only one."""
        self.answer, self.vocab_size, self.end = answer, vocab_size, tokenizer.eos
        spelt = [tokenizer.encode_template(mark) for mark in marks if not opened]
        unseen = tokenizer.hidden.difference(tokenizer.harmony)
        self.begins = [mark for mark in spelt if unseen.isdisjoint(mark)]
        super().__init__(tokenizer, marks[0] if opened else "")

    def start(self) -> None:
        super().start()
        self.place: int | None = None
        """Where in the reply the answer begins; None while unknown."""

    @cached_property
    def anything(self) -> np.ndarray:
        """All tokens but those that end a reply, (vocab,) bool."""
        mask = np.ones(self.vocab_size, bool)
        mask[[token for token in self.end if token < self.vocab_size]] = False
        return mask

    @cached_property
    def blanks(self) -> np.ndarray:
        """The tokens that are only white space, (vocab,) bool."""
        contents = map(self.tokenizer.content, range(self.vocab_size))
        return np.array([bool(content) and content.isspace() for content in contents])

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        """The tokens that may follow: any while it thinks, then white space before the answer."""
        self.follow(tokens)
        if self.place is not None:
            return self.answer.allowed(tokens[self.place :])
        if opening := [mark[len(tokens)] for mark in self.begins if self._begins(mark, tokens)]:
            mask = np.zeros(self.vocab_size, bool) if tokens else self._first()
            mask[opening] = True
            return mask
        return self._first() | self.blanks if self.channels.has_thought else self.anything

    def forced(self, tokens: Sequence[int]) -> Sequence[int]:
        """The tokens of the answer that must follow."""
        self.follow(tokens)
        return () if self.place is None else self.answer.forced(tokens[self.place :])

    def ends(self, tokens: Sequence[int]) -> bool:
        """Whether the answer is complete."""
        self.follow(tokens)
        return self.place is not None and self.answer.ends(tokens[self.place :])

    def copy(self) -> Self:
        """A copy for another continuation of the reply."""
        other = copy(self)
        other.answer = self.answer.copy()
        other.start()
        return other

    def _first(self) -> np.ndarray:
        """The tokens that the answer may begin with, (vocab,) bool."""
        allowed = self.answer.allowed([])
        mask = np.zeros(self.vocab_size, bool)
        mask[slice(None) if allowed is None else allowed] = True
        return mask

    def _begins(self, mark: Sequence[int], tokens: Sequence[int]) -> bool:
        return len(tokens) < len(mark) and list(mark[: len(tokens)]) == list(tokens)

    def take(self, place: int, tokens: Sequence[int]) -> None:
        token, ended = tokens[place], self.channels.has_thought
        if self.place is not None:
            return
        self.channels.add(self.detokenizer.add(token))
        if ended:  # thinking ended with the previous token
            self.place = place + bool(self.blanks[token])
        elif (
            not self.channels.has_thought
            and not self.channels.is_thinking
            and not any(self._begins(mark, self.read) for mark in self.begins)
        ):
            self.place = 0
