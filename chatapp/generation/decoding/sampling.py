"""Sample a token from logits.

First the processors change the logits: logit bias, repetition, presence and frequency penalties, DRY, repeated n-grams,
bad words. Then, unless the temperature is 0, the filters choose candidates, in the order of `options.ORDER` or the
requested one, and a token is drawn.
"""

from collections.abc import Iterable
from math import log
from random import Random

import numpy as np

from chatapp.generation.decoding.candidates import Candidates, Top, check_peak, greedy, largest
from chatapp.generation.decoding.filters import exclude_top_choices, list_filters
from chatapp.generation.decoding.processors import History, list_processors
from chatapp.generation.options import Options
from chatapp.generation.text.tokenizer import Tokenizer


class Sampler:
    """Samples one completion's tokens; keeps the state of processors and random numbers.

    Completion `index` has its own stream of random numbers, derived from (seed, index), and uses one number per token
    (XTC another). So its tokens do not depend on how many others are decoded beside it, except where a backend rounds a
    batch's logits differently from a single row's.
    """

    def __init__(
        self,
        options: Options,
        *,
        seed: int,
        index: int,
        prompt: Iterable[int],
        vocab_size: int,
        tokenizer: Tokenizer | None = None,
    ):
        """`tokenizer` is needed for options about texts."""
        self.options = options
        self.random = Random(f"{seed} {index}")  # the standard library's: numpy's takes 3 MB to import
        self.processors = list_processors(options, vocab_size, tokenizer)
        self.filters = list_filters(options)
        self.history = History(prompt if self.processors else ())
        self._buffer = np.empty(vocab_size if self.processors else 0, np.float32)

    def sample(self, logits: np.ndarray, top: Top | None = None) -> int:
        """Sample a token from logits (vocab,), which are not changed; `top` are the largest, if known."""
        if self.processors:
            logits, top = self.process(logits), None
        greedily = not self.options.temperature
        token = greedy(logits, top) if greedily else self.choose(logits, top).draw(self.random.random())
        self.add(token)
        return token

    def skip(self) -> None:
        """Skip the random numbers of a token drawn elsewhere with the same seed."""
        if self.options.temperature:
            for _ in range(1 + self.filters.count(exclude_top_choices)):
                self.random.random()

    def add(self, token: int) -> None:
        """Record a token of the reply."""
        if self.processors:
            self.history.add(token)

    def process(self, logits: np.ndarray) -> np.ndarray:
        """The logits after all processors: the same array, or a copy valid until the next call."""
        if not self.processors:
            return logits
        np.copyto(self._buffer, logits)
        for process in self.processors:
            process(self._buffer, self.history)
        return self._buffer

    def choose(self, logits: np.ndarray, top: Top | None = None) -> Candidates:
        """The candidates after all filters."""
        candidates = Candidates(logits, top)
        for act in self.filters:
            act(candidates, self.options, self.random)
        return candidates


def log_probability(
    logits: np.ndarray, token: int, count: int, top: Top | None = None, weights: np.ndarray | None = None
) -> tuple[float, list[tuple[int, float]]]:
    """A token's log-probability, and the `count` most likely tokens with theirs.

    They are of the model's own distribution, before biases, penalties, temperature and filters. `top` are the largest
    logits, if known; `weights` (vocab,) float32 is scratch memory, faster than allocating it for each token.
    """
    peak = top[1][0] if top else logits.max()
    check_peak(peak)
    weights = np.subtract(logits, peak, out=weights)
    total = float(peak) + log(np.exp(weights, out=weights).sum())
    if not count:
        return float(logits[token]) - total, []
    ids = top[0][:count] if top and top[0].size >= count else largest(logits, count)
    best = zip(ids.tolist(), logits[ids].tolist(), strict=True)
    return float(logits[token]) - total, [(i, logit - total) for i, logit in best]
