"""The tokens that may be drawn, with what they weigh; and the arithmetic on whole vocabularies that this takes.

Ties are settled in favour of the lower token id, so the candidates are always an exact, repeatable set.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import exp, inf, isfinite, log2

import numpy as np

from chatapp.generation.errors import GenerationError

Top = tuple[np.ndarray, np.ndarray]
"""Ids and logits of the largest logits, largest first, lower id first among equals."""
Weights = np.ndarray | list[float]
BLOCK = 256
LOWEST = np.finfo(np.float32).min


class Candidates:
    """The tokens that may be drawn: all, in their order, until some are kept, the likeliest first.

    A few dozen are plain numbers, which are quicker than arrays.
    """

    def __init__(self, logits: np.ndarray, top: Top | None = None):
        """Those of all logits (vocab,), which are left as they are; `top` saves looking for the largest."""
        self.ids: np.ndarray | None = None
        """None: all."""
        self.logits: Weights = logits
        self.top = top
        self.temperature = 1.0
        self._weights: Weights | None = None
        self.place: int | None = None
        """Of the one that was drawn."""

    @property
    def weights(self) -> Weights:
        """What they weigh, relative to the likeliest's 1: exp((logit - peak) / temperature)."""
        if self._weights is None:
            logits = self.logits
            if isinstance(logits, list):
                peak, temperature = logits[0], self.temperature
                self._weights = [exp((logit - peak) / temperature) for logit in logits]
            else:
                check_peak(peak := logits.max())
                self._weights = weigh(logits, peak, self.temperature)
        return self._weights

    def heat(self, temperature: float) -> None:
        """Divide the logits by a temperature."""
        self.temperature *= temperature
        self._weights = None

    def keep_largest(self, count: int) -> None:
        """Keep the `count` likeliest."""
        if isinstance(self.logits, list):
            self.cut(count)
        elif count < self.logits.size:
            ids, logits = self.ids, self.logits
            if ids is None and self.top and self.top[0].size >= count:
                self.ids, largest_logits = self.top[0][:count], self.top[1][:count]
            else:
                check_peak(logits.max())
                found = largest(logits, count)
                self.ids, largest_logits = found if ids is None else ids[found], logits[found]
            self.logits, self._weights = largest_logits.tolist(), None
            check_peak(self.logits[0] if self.logits else -inf)

    def cut(self, count: int) -> None:
        """Keep the first `count` of a few."""
        self.logits = self.logits[:count]
        self._weights = self._weights if self._weights is None else self._weights[:count]

    def keep(self, places: np.ndarray | Sequence[int]) -> None:
        """Keep the tokens at some places, in their order."""
        weights = self.weights
        if isinstance(self.logits, list):
            self.ids = None if self.ids is None else self.ids[list(places)]
            self.logits = [self.logits[place] for place in places]
            self._weights = [weights[place] for place in places]
        else:
            assert not isinstance(weights, list)
            places = np.asarray(places)
            self.ids = places if self.ids is None else self.ids[places]
            self.logits, self._weights = self.logits[places], weights[places]

    def forget_weights(self) -> None:
        """Weigh again: the likeliest has gone."""
        self._weights = None

    @property
    def surprise(self) -> float | None:
        """Bits of surprise in what was drawn; None before."""
        weights = self.weights
        return None if self.place is None else log2(float(sum(weights)) / weights[self.place])

    def draw(self, chance: float) -> int:
        """The token that `chance`, from [0, 1), falls on when the weights are laid end to end."""
        weights = self.weights
        self.place = place = draw_few(weights, chance) if isinstance(weights, list) else draw(weights, chance)
        return place if self.ids is None else int(self.ids[place])


def greedy(logits: np.ndarray, top: Top | None) -> int:
    """The likeliest token."""
    token = int(top[0][0] if top else logits.argmax())
    check_peak(logits[token])
    return token


def draw_few(weights: list[float], chance: float) -> int:
    """The same as `draw`, of plain numbers."""
    ends = list(accumulate(weights))
    return min(bisect_right(ends, chance * ends[-1]), bisect_left(ends, ends[-1]))


def check_peak(peak: float | np.floating) -> None:
    """Refuse logits whose largest is not a number one can draw from."""
    if isfinite(peak):
        return
    if peak == -inf:
        raise GenerationError("no token can follow: every one of them is forbidden; forbid fewer")
    raise GenerationError(
        "the model computed logits that are not numbers; its weights may be damaged, "
        "or this precision does not suit it: try another one"
    )


def weigh(logits: np.ndarray, peak: np.floating, temperature: float) -> np.ndarray:
    """Softmax without its division: exp((logit - peak) / temperature)."""
    if logits.size <= 16 * BLOCK:
        return np.exp((logits.astype(np.float64) - peak) / temperature)
    weights: np.ndarray = logits - peak
    with np.errstate(over="ignore"):  # towards minus infinity, whose weight is the 0 it should be
        weights /= np.float32(temperature)
    np.exp(weights, out=weights)
    return weights


def largest(logits: np.ndarray, count: int) -> np.ndarray:
    """Ids of the `count` largest finite logits, largest first, lower id first among equals.

    As many columns as are wanted have a maximum of `threshold` or more, so nothing below it is among
    the largest; what is left is a handful to sort.
    """
    threshold = LOWEST
    rows = min(64, logits.size // (4 * count))
    if rows > 1:
        width = logits.size // rows
        maxima = logits[: rows * width].reshape(rows, width).max(axis=0)
        maxima.partition(width - count)
        threshold = max(threshold, maxima[width - count])
    ids = (logits >= threshold).nonzero()[0]  # ascending, so that the stable sort settles ties
    order = (-logits[ids]).argsort(kind="stable")[:count]
    found: np.ndarray = ids[order]
    return found


def covering(weights: np.ndarray, goal: float) -> int:
    """How many of the descending weights it takes to reach `goal`; all, if they do not."""
    if weights.size > 16 * BLOCK:
        blocks, ends = block_sums(weights)
        block = min(int(ends.searchsorted(goal)), ends.size - 1)
        start = block * BLOCK
        return start + covering(weights[start : start + BLOCK], goal - (ends[block] - blocks[block]))
    reached = weights.cumsum(dtype=np.float64).searchsorted(goal)
    return min(int(reached) + 1, weights.size)


def draw(weights: np.ndarray, chance: float) -> int:
    """The place that `chance`, from [0, 1), falls on when the weights are laid end to end; never one of weight 0."""
    if weights.size > 16 * BLOCK:
        blocks, ends = block_sums(weights)
        target = chance * ends[-1]
        block = int(ends.searchsorted(target, side="right"))
        within = (target - (ends[block] - blocks[block])) / blocks[block]
        start = block * BLOCK
        return start + draw(weights[start : start + BLOCK], min(max(within, 0.0), 1 - 2**-53))
    ends = weights.cumsum(dtype=np.float64)
    return int(ends.searchsorted(chance * ends[-1], side="right"))


def block_sums(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of every 256 weights, and where each block ends when all are laid end to end (both float64)."""
    blocks = np.add.reduceat(weights, np.arange(0, weights.size, BLOCK)).astype(np.float64)
    return blocks, blocks.cumsum()
