"""Biases and penalties: small functions that change the logits of one row's next token."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from chatapp.generation.options import KNOBS, OptionError, Options


class History:
    """The tokens of a row so far, which processors look at."""

    def __init__(self, prompt: Iterable[int]):
        self.tokens = list(prompt)
        """Those of the prompt, then those of the reply."""
        self.begun = len(self.tokens)
        """How many of them are the prompt's."""

    @property
    def reply(self) -> Sequence[int]:
        return self.tokens[self.begun :]

    @cached_property
    def seen(self) -> "Seen":
        """Which there are, and how often."""
        seen = Seen(self.tokens[: self.begun])
        for token in self.reply:
            seen.add(token)
        return seen

    def add(self, token: int) -> None:
        """The reply grows by a token."""
        if "seen" in self.__dict__:
            self.seen.add(token)
        self.tokens.append(token)


class Seen:
    """The tokens of prompt and reply, each once, with how often each is in the reply."""

    def __init__(self, prompt: Iterable[int]):
        self.places = {token: place for place, token in enumerate(dict.fromkeys(prompt))}
        size = len(self.places)
        self._ids = np.zeros(size + 64, np.int64)
        self._ids[:size] = list(self.places)
        self._counts = np.zeros(size + 64, np.float32)

    @property
    def ids(self) -> np.ndarray:
        return self._ids[: len(self.places)]

    @property
    def counts(self) -> np.ndarray:
        return self._counts[: len(self.places)]

    def add(self, token: int) -> None:
        """Count one more token of the reply."""
        place = self.places.setdefault(token, len(self.places))
        if place == self._ids.size:
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._ids[place] = token
        self._counts[place] += 1


Processor = Callable[[np.ndarray, History], None]
"""Changes logits (vocab,) in place."""


def list_processors(options: Options, vocab_size: int) -> list[Processor]:
    """The processors that some options ask for, in the order in which they act."""
    found: list[Processor] = []
    if options.logit_bias:
        if unknown := [token for token in options.logit_bias if token >= vocab_size]:
            raise OptionError(f"logit_bias names token {unknown[0]}, this model has only {vocab_size} tokens")
        ids, biases = list(options.logit_bias), list(options.logit_bias.values())
        found.append(partial(add_biases, np.array(ids, np.int64), np.array(biases, np.float32)))
    penalties = [
        (penalise, np.float32(value))
        for name, penalise in PENALTIES.items()
        if (value := getattr(options, name)) != KNOBS[name].off
    ]
    if penalties:
        found.append(partial(penalise_seen, penalties))
    return found


def add_biases(ids: np.ndarray, biases: np.ndarray, logits: np.ndarray, history: History) -> None:
    """Add to the logits of some tokens."""
    logits[ids] += biases


Penalty = Callable[[np.ndarray, np.ndarray, np.float32], np.ndarray]
PENALTIES: Mapping[str, Penalty] = {
    "repetition_penalty": lambda values, counts, by: np.where(values > 0, values / by, values * by),
    "presence_penalty": lambda values, counts, by: values - by * (counts > 0),
    "frequency_penalty": lambda values, counts, by: values - by * counts,
}
"""What is done, in this order, to the logits of the tokens seen; `counts` is how often each is in the reply."""


def penalise_seen(penalties: Sequence[tuple[Penalty, np.float32]], logits: np.ndarray, history: History) -> None:
    """Penalise the tokens of prompt and reply."""
    seen = history.seen
    values = logits[seen.ids]
    for penalise, by in penalties:
        values = penalise(values, seen.counts, by)
    logits[seen.ids] = values
