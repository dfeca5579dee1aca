"""Candidate tokens with their weights, and the arithmetic on whole vocabularies for them.

Ties go to the lower token id, so that the candidates are exact and repeatable.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import exp, inf, isfinite, log2

import numpy as np

from chatapp.generation.errors import GenerationError

Top = tuple[np.ndarray, np.ndarray]
"""Ids and logits of the largest logits, largest first, ties by id."""
Weights = np.ndarray | list[float]
BLOCK = 256
LOWEST = np.finfo(np.float32).min


class Candidates:
    """The tokens that may be drawn: at first all, in order; once some are kept, most likely first.

    A few dozen are held as Python numbers, which are faster than arrays.
    """

    def __init__(self, logits: np.ndarray, top: Top | None = None):
        """All tokens with logits (vocab,), which are not changed; `top` are the largest, if known."""
        self.ids: np.ndarray | None = None
        """None: all."""
        self.logits: Weights = logits
        self.top = top
        self.temperature = 1.0
        self._weights: Weights | None = None
        self.place: int | None = None
        """The place of the drawn token."""

    @property
    def weights(self) -> Weights:
        """Unnormalised probabilities, exp((logit - peak) / temperature)."""
        if self._weights is None:
            logits = self.logits
            if isinstance(logits, list):
                peak, temperature = logits[0], self.temperature
                self._weights = [exp((logit - peak) / temperature) for logit in logits]
            else:
                check_peak(peak := logits.max())
                self._weights = weigh(logits, peak, self.temperature)
        return self._weights

    def apply_temperature(self, temperature: float) -> None:
        """Divide the logits by a temperature."""
        self.temperature *= temperature
        self._weights = None

    def keep_largest(self, count: int) -> None:
        """Keep the `count` most likely."""
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
        """Keep the first `count`, of a few."""
        self.logits = self.logits[:count]
        self._weights = self._weights if self._weights is None else self._weights[:count]

    def keep(self, places: np.ndarray | Sequence[int]) -> None:
        """Keep the tokens at these places, in order."""
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
        """Compute the weights again, as the most likely token was removed."""
        self._weights = None

    @property
    def surprise(self) -> float | None:
        """The surprise of the drawn token in bits; None before."""
        weights = self.weights
        return None if self.place is None else log2(float(sum(weights)) / weights[self.place])

    def draw(self, chance: float) -> int:
        """Draw the token at `chance`, in [0, 1), of the cumulative weights."""
        weights = self.weights
        self.place = place = draw_few(weights, chance) if isinstance(weights, list) else draw(weights, chance)
        return place if self.ids is None else int(self.ids[place])


def greedy(logits: np.ndarray, top: Top | None) -> int:
    """The most likely token."""
    token = int(top[0][0] if top else logits.argmax())
    check_peak(logits[token])
    return token


def draw_few(weights: list[float], chance: float) -> int:
    """The same as `draw`, for Python numbers."""
    ends = list(accumulate(weights))
    return min(bisect_right(ends, chance * ends[-1]), bisect_left(ends, ends[-1]))


def check_peak(peak: float | np.floating) -> None:
    """Raise if the largest logit is not a finite number."""
    if isfinite(peak):
        return
    if peak == -inf:
        raise GenerationError("no token can follow: all of them are forbidden; forbid fewer")
    raise GenerationError(
        "the model computed logits that are not numbers; its weights may be damaged, "
        "or this precision is unsuitable; try another --precision"
    )


def weigh(logits: np.ndarray, peak: np.floating, temperature: float) -> np.ndarray:
    """Softmax without the division: exp((logit - peak) / temperature)."""
    if logits.size <= 16 * BLOCK:
        return np.exp((logits.astype(np.float64) - peak) / temperature)
    weights: np.ndarray = logits - peak
    with np.errstate(over="ignore"):  # to minus infinity, with weight 0 as it should be
        weights /= np.float32(temperature)
    np.exp(weights, out=weights)
    return weights


def largest(logits: np.ndarray, count: int) -> np.ndarray:
    """Ids of the `count` largest finite logits, largest first, ties by id.

    `count` columns have a maximum of at least `threshold`, so nothing below it is among the largest, and only a handful
    is left to sort.
    """
    threshold = LOWEST
    rows = min(64, logits.size // (4 * count))
    if rows > 1:
        width = logits.size // rows
        maxima = logits[: rows * width].reshape(rows, width).max(axis=0)
        maxima.partition(width - count)
        threshold = max(threshold, maxima[width - count])
    ids = (logits >= threshold).nonzero()[0]  # ascending, so that a stable sort settles ties
    order = (-logits[ids]).argsort(kind="stable")[:count]
    found: np.ndarray = ids[order]
    return found


def covering(weights: np.ndarray, goal: float) -> int:
    """How many of the descending weights add up to `goal`; all if they never do."""
    if weights.size > 16 * BLOCK:
        blocks, ends = block_sums(weights)
        block = min(int(ends.searchsorted(goal)), ends.size - 1)
        start = block * BLOCK
        return start + covering(weights[start : start + BLOCK], goal - (ends[block] - blocks[block]))
    reached = weights.cumsum(dtype=np.float64).searchsorted(goal)
    return min(int(reached) + 1, weights.size)


def draw(weights: np.ndarray, chance: float) -> int:
    """The index at `chance`, in [0, 1), of the cumulative weights; never one of weight 0."""
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
    """The sums of blocks of 256 weights, and their cumulative sums (both float64)."""
    blocks = np.add.reduceat(weights, np.arange(0, weights.size, BLOCK)).astype(np.float64)
    return blocks, blocks.cumsum()
