"""The distribution of the next token, kept so that options can be previewed without the model."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from chatapp.generation.decoding.candidates import check_peak, greedy, largest, weigh
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.options import Options
from chatapp.generation.text.tokenizer import Tokenizer

SHOWN = 10
"""Number of candidates in a preview."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible next token."""

    id: int
    text: str
    before: float
    """Its probability in the model's own distribution."""
    after: float
    """Its probability under the options; 0 if it cannot be drawn."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What options make of the next token's distribution."""

    candidates: tuple[Candidate, ...]
    """The most likely ones, before or after."""
    kept: int
    """Number of tokens that can be drawn."""
    vocab_size: int
    entropy_before: float
    """The entropy of the model's own distribution, in bits."""
    entropy: float
    """The entropy of the distribution that is drawn from, in bits."""

    @property
    def choices_before(self) -> float:
        """The perplexity of the model's own distribution."""
        return math.exp2(self.entropy_before)

    @property
    def choices(self) -> float:
        """The perplexity of the distribution that is drawn from."""
        return math.exp2(self.entropy)


class Distribution:
    """The model's own logits of the next token."""

    def __init__(
        self,
        logits: np.ndarray,
        prompt: Iterable[int],
        describe: Callable[[int], str],
        tokenizer: Tokenizer | None = None,
    ):
        """Copies logits (vocab,); `prompt` is for penalties."""
        self.tokenizer = tokenizer
        self.logits = np.array(logits, np.float32)
        self.prompt, self.describe = tuple(prompt), describe
        peak = self.logits.max()
        check_peak(peak)
        weights = weigh(self.logits, peak, 1.0)
        self._total = float(peak) + math.log(weights.sum(dtype=np.float64))
        self._entropy = bits(weights)
        self._best = largest(self.logits, SHOWN)

    def under(self, options: Options, reply: Iterable[int] = ()) -> Preview:
        """The distribution that a Sampler with these options draws from, after the tokens `reply`."""
        size = self.logits.size
        sampler = Sampler(options, seed=0, index=0, prompt=self.prompt, vocab_size=size, tokenizer=self.tokenizer)
        for token in reply:
            sampler.add(token)
        logits = sampler.process(self.logits)
        ids: np.ndarray | None
        if options.temperature:
            candidates = sampler.choose(logits)
            ids, found = candidates.ids, candidates.weights
            weights = np.asarray(found, np.float64 if isinstance(found, list) else None)
        else:
            ids, weights = np.array([greedy(logits, None)]), np.ones(1)
        total = float(weights.sum(dtype=np.float64))
        best = self._best if logits is self.logits else np.union1d(self._best, largest(logits, SHOWN))
        return Preview(
            self._candidates(best, ids, weights, total),
            int(np.count_nonzero(weights)),
            size,
            self._entropy,
            bits(weights),
        )

    def _candidates(
        self, best: np.ndarray, ids: np.ndarray | None, weights: np.ndarray, total: float
    ) -> tuple[Candidate, ...]:
        found = []
        for token in best.tolist():
            if ids is None:
                weight = float(weights[token])
            else:
                place = np.flatnonzero(ids[: weights.size] == token)
                weight = float(weights[place[0]]) if place.size else 0.0
            found.append((token, math.exp(float(self.logits[token]) - self._total), weight / total))
        found.sort(key=lambda candidate: (-max(candidate[1:]), candidate[0]))
        return tuple(Candidate(token, self.describe(token), *chances) for token, *chances in found[:SHOWN])


def bits(weights: np.ndarray) -> float:
    """The entropy of weights, in bits."""
    possible = weights[weights > 0]
    total = float(possible.sum(dtype=np.float64))
    return max(0.0, math.log2(total) - float((possible * np.log2(possible)).sum(dtype=np.float64)) / total)
