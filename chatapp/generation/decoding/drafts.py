"""What may follow, guessed without the model: from what was said before, or by a smaller model."""

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from backends import Session
from chatapp.generation.decoding.generate import count_shared, split_prompt
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.errors import GenerationError
from chatapp.generation.options import ORDER, Options
from chatapp.generation.text.tokenizer import Tokenizer


class Drafter(Protocol):
    """Guesses the tokens that come next."""

    def find(self, tokens: Sequence[int]) -> int:
        """How good a guess it has of what follows these tokens of prompt and reply, a small number; 0: none."""

    def draft(self, tokens: Sequence[int], count: int) -> Sequence[int]:
        """The guess, of at most `count` tokens."""


class Lookup:
    """Guesses that what followed the same tokens before follows again: code and quotations repeat themselves."""

    SIZES = (5, 3, 2)
    """Tokens that have to be the same; a guess is as good as they are many."""

    def __init__(self) -> None:
        self.places: list[dict[tuple[int, ...], int]] = [{} for _ in self.SIZES]
        """What follows the last occurrence of so many tokens, by its place."""
        self.read = 0
        self.place = 0

    def find(self, tokens: Sequence[int]) -> int:
        for place in range(self.read, len(tokens)):  # of the last tokens nothing follows yet
            for size, places in zip(self.SIZES, self.places, strict=True):
                if place >= size:
                    places[tuple(tokens[place - size : place])] = place
        self.read = len(tokens)
        for size, places in zip(self.SIZES, self.places, strict=True):
            if (place := places.get(tuple(tokens[-size:]), 0)) and len(tokens) >= size:
                self.place = place
                return size
        return 0

    def draft(self, tokens: Sequence[int], count: int) -> Sequence[int]:
        found = list(islice(tokens, self.place, self.place + count))
        period = len(tokens) - self.place
        while len(found) < count:  # the end repeats itself: it may do so again
            found.append(found[-period])
        return found


FILTERS = (*(name for name in ORDER if name != "xtc"), "xtc_probability", "xtc_threshold")
"""The options that a draft is drawn with; penalties need what was not said."""


class DraftModel:
    """Lets a smaller model of the same vocabulary guess, with the numbers that the model itself will draw with."""

    def __init__(self, session: Session, sampler: Sampler, vocab_size: int):
        """`sampler` is the one of the model that is guessed for, whose logits are of `vocab_size` tokens."""
        self.session, self.sampler, self.vocab_size = session, sampler, vocab_size
        options = Options(**{name: getattr(sampler.options, name) for name in FILTERS})
        self.own = Sampler(options, seed=0, index=0, prompt=(), vocab_size=session.vocab_size)
        self.cached: list[int] = []

    def find(self, tokens: Sequence[int]) -> int:
        return int(len(tokens) < self.session.context_length)

    def draft(self, tokens: Sequence[int], count: int) -> Sequence[int]:
        session, found = self.session, list[int]()
        self.own.random.setstate(self.sampler.random.getstate())
        logits = self._read(tokens)
        count = min(count, session.context_length - len(tokens))
        while True:
            top = session.top
            token = self.own.sample(logits[0, -1], (top.tokens[0, -1], top.logits[0, -1]) if top else None)
            if token >= self.vocab_size:
                return found
            found.append(token)
            if len(found) >= count:
                return found
            logits = session.forward(np.array([[token]], np.int64))
            self.cached.append(token)

    def _read(self, tokens: Sequence[int]) -> np.ndarray:
        """The logits after these tokens, of which only what is new is read."""
        shared = min(count_shared(self.cached, tokens), len(tokens) - 1)
        if shared < self.session.length:
            self.session.rewind(shared)
        for part in split_prompt(self.session, list(tokens[shared:])):
            logits = self.session.forward(part)
        self.cached = list(tokens)
        return logits


def check_draft(tokenizer: Tokenizer, session: Session, draft_tokenizer: Tokenizer, draft_session: Session) -> None:
    """Refuse a draft model that cannot guess for a model: one of another vocabulary, or an encoder-decoder."""
    own, other = (one.vocabulary.get_vocab() for one in (tokenizer, draft_tokenizer))
    if own != other:
        differing = len(own.items() ^ other.items())
        raise GenerationError(
            f"the draft model has another vocabulary: {len(other):,} tokens, this one {len(own):,}, and {differing:,} "
            "of both are not the other's; choose a smaller model of the same family"
        )
    if draft_session.whole_prompts or session.whole_prompts:
        raise GenerationError("an encoder-decoder neither drafts nor is drafted for; leave the draft model out")
    if draft_session.vocab_size < len(own):
        raise GenerationError(
            f"the draft model gives logits of {draft_session.vocab_size:,} tokens, and its tokenizer has {len(own):,}; "
            "choose another draft model"
        )
