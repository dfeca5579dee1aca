"""What may follow, guessed without the model: from what was said before, or by a smaller model."""

from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

import numpy as np

from backends import Session
from chatapp.generation.decoding.generate import count_shared, split_prompt
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.errors import GenerationError
from chatapp.generation.options import ORDER, Options
from chatapp.generation.text.tokenizer import Tokenizer


class Drafter(Protocol):
    """Guesses the tokens that come next."""

    def find(self, tokens: Sequence[int]) -> Mapping[int, float]:
        """The kinds of guesses it has after these tokens of prompt and reply, and the share of each that is right.

        The shares hold until turns have measured their own.
        """

    def draft(self, tokens: Sequence[int], kind: int, count: int) -> Sequence[int]:
        """A guess of a kind that was found for these tokens: at most `count` tokens."""


class Lookup:
    """Guesses that text repeats itself: word for word, or with something changed, as in code that is edited."""

    KINDS: Final = {5: 0.95, 2: 0.8, 1: 0.5, 0: 0.3}
    """How many of the last tokens must occur earlier, and how often what followed them there follows again.

    0 resumes: it goes on copying after a token that differed from the last guess.
    """

    def __init__(self) -> None:
        self.places: dict[tuple[int, ...], list[int]] = {}
        """The indices of the tokens that followed these."""
        self.read = 0
        self.lag = 0
        """How many tokens back the last guess was copied from; 0 before the first."""
        self.found: dict[int, int] = {}
        """The index that a guess of each kind would be copied from."""

    def find(self, tokens: Sequence[int]) -> Mapping[int, float]:
        lengths = [length for length in self.KINDS if length]
        for place in range(self.read, len(tokens)):  # nothing follows the last tokens yet
            for length in lengths:
                if place >= length:
                    self.places.setdefault(tuple(tokens[place - length : place]), []).append(place)
        self.read = len(tokens)
        self.found = {}
        for length in lengths:
            if places := self.places.get(tuple(tokens[-length:])):
                self._add(length, self._nearest(places) if length == lengths[0] else places[-1])
        if self.lag:
            self._add(0, len(tokens) - self.lag)
        return {kind: self.KINDS[kind] for kind in self.found}

    def _add(self, kind: int, place: int) -> None:
        if place not in self.found.values():  # otherwise it is the guess of a better kind
            self.found[kind] = place

    def _nearest(self, places: list[int]) -> int:
        """The place nearest to where the last guess went on; the last one before there was any."""
        if not self.lag:
            return places[-1]
        resumed = self.read - self.lag
        after = bisect(places, resumed)
        return min(places[max(after - 1, 0) : after + 1], key=lambda place: abs(place - resumed))

    def draft(self, tokens: Sequence[int], kind: int, count: int) -> Sequence[int]:
        place = self.found[kind]
        self.lag = len(tokens) - place
        found = list(islice(tokens, place, place + count))
        while len(found) < count:  # the end repeats itself: it may do so again
            found.append(found[-self.lag])
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

    def find(self, tokens: Sequence[int]) -> Mapping[int, float]:
        return {1: 0.75} if len(tokens) < self.session.context_length else {}

    def draft(self, tokens: Sequence[int], kind: int, count: int) -> Sequence[int]:
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
        raise GenerationError("a draft model does not work with an encoder-decoder; leave it out")
    if draft_session.vocab_size < len(own):
        raise GenerationError(
            f"the draft model has logits for {draft_session.vocab_size:,} tokens, and its tokenizer has {len(own):,}; "
            "choose another draft model"
        )
