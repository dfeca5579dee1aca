"""Temperature, top-k, top-p, min-p, penalties and biases, as small functions on the logits of one row.

They act in Hugging Face's order: logit bias, repetition penalty, presence and frequency penalties,
temperature, top_k, top_p (of what top_k left, renormalised), min_p; then one token is drawn. Ties are
settled in favour of the lower token id, so the candidates are always an exact, repeatable set.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from math import exp, inf, isfinite, log
from random import Random

import numpy as np

from chatapp.generation.errors import GenerationError
from chatapp.generation.options import KNOBS, OptionError, Options

Top = tuple[np.ndarray, np.ndarray]
"""Ids and logits of the largest logits, largest first, lower id first among equals."""
Ids = np.ndarray | None
Weights = np.ndarray | list[float]
Choices = tuple[Ids, Weights]
"""The tokens that may be drawn (None: all; as many as have weights), with weights relative to the likeliest's 1."""
BLOCK = 256
LOWEST = np.finfo(np.float32).min


class Sampler:
    """Draws the tokens of one completion, and remembers what its penalties and its seed need.

    Completion `index` has a stream of random numbers of its own, derived from (seed, index), and takes
    one number per token: what it draws does not depend on how many others are decoded beside it (except
    where a backend rounds the logits of a batch differently from those of a single row).
    """

    def __init__(self, options: Options, *, seed: int, index: int, prompt: Iterable[int], vocab_size: int):
        self.options = options
        self.random = Random(f"{seed} {index}")  # of the standard library: numpy's takes 3 MB to import
        on = [name for name, knob in KNOBS.items() if getattr(options, name) != knob.off]
        self.penalties = [(act, np.float32(getattr(options, name))) for name, act in PENALTIES.items() if name in on]
        self.filters = [act for name, act in FILTERS.items() if name in on]
        self.penalised = bool(self.penalties)
        self.seen = Seen(prompt if self.penalised else ())
        self.bias_ids = np.array(list(options.logit_bias), np.int64)
        self.biases = np.array(list(options.logit_bias.values()), np.float32)
        if unknown := [token for token in options.logit_bias if token >= vocab_size]:
            raise OptionError(f"logit_bias names token {unknown[0]}, this model has only {vocab_size} tokens")
        self.buffer = np.empty(vocab_size if self.penalised or self.bias_ids.size else 0, np.float32)

    def sample(self, logits: np.ndarray, top: Top | None = None) -> int:
        """The next token, from logits (vocab,), which are left as they are; `top` saves looking for the largest."""
        if self.buffer.size:
            logits, top = self.adjusted(logits), None
        if self.options.temperature:
            ids, weights = self.choices(logits, top)
            chance = self.random.random()
            place = draw_few(weights, chance) if isinstance(weights, list) else draw(weights, chance)
            token = place if ids is None else int(ids[place])
        else:
            token = greedy(logits, top)
        if self.penalised:
            self.seen.add(token)
        return token

    def adjusted(self, logits: np.ndarray) -> np.ndarray:
        """The logits with biases and penalties."""
        np.copyto(self.buffer, logits)
        self.buffer[self.bias_ids] += self.biases
        if self.penalised:
            values, counts = self.buffer[self.seen.ids], self.seen.counts
            for penalise, by in self.penalties:
                values = penalise(values, counts, by)
            self.buffer[self.seen.ids] = values
        return self.buffer

    def choices(self, logits: np.ndarray, top: Top | None = None) -> Choices:
        """The tokens that may be drawn; after top_k plain numbers, which are quicker for a few dozen than arrays."""
        options = self.options
        ids: Ids = None
        weights: Weights
        if 0 < options.top_k < logits.size:
            if not top or top[0].size < options.top_k:
                check_peak(logits.max())
                ids = largest(logits, options.top_k)
                top = ids, logits[ids]
            ids, logits = top[0], top[1][: options.top_k]
            values = logits.tolist()
            check_peak(peak := values[0] if values else -inf)
            weights = [exp((logit - peak) / options.temperature) for logit in values]
        else:
            check_peak(peak := logits.max())
            weights = weigh(logits, peak, options.temperature)
        for act in self.filters:
            ids, weights = act(ids, weights, logits, options)
        return ids, weights


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


PENALTIES: Mapping[str, Callable[[np.ndarray, np.ndarray, np.float32], np.ndarray]] = {
    "repetition_penalty": lambda values, counts, by: np.where(values > 0, values / by, values * by),
    "presence_penalty": lambda values, counts, by: values - by * (counts > 0),
    "frequency_penalty": lambda values, counts, by: values - by * counts,
}
"""What is done, in this order, to the logits of the tokens seen; `counts` is how often each is in the reply."""


def greedy(logits: np.ndarray, top: Top | None) -> int:
    """The likeliest token."""
    token = int(top[0][0] if top else logits.argmax())
    check_peak(logits[token])
    return token


def keep_top_p(ids: Ids, weights: Weights, logits: np.ndarray, options: Options) -> Choices:
    """Keep the fewest tokens that hold `top_p` of all weight."""
    if isinstance(weights, list):
        ends = list(accumulate(weights))
        return ids, weights[: bisect_left(ends, options.top_p * ends[-1]) + 1]
    return keep(ids, weights, nucleus(logits if ids is None else logits[ids], weights, options))


def keep_min_p(ids: Ids, weights: Weights, logits: np.ndarray, options: Options) -> Choices:
    """Keep the tokens with at least `min_p` of the likeliest's weight."""
    if isinstance(weights, list):
        return ids, [weight for weight in weights if weight >= options.min_p]
    return keep(ids, weights, (weights >= options.min_p).nonzero()[0])


def keep(ids: Ids, weights: np.ndarray, places: np.ndarray) -> Choices:
    """Keep the tokens at some places."""
    return (places if ids is None else ids[places]), weights[places]


FILTERS = {"top_p": keep_top_p, "min_p": keep_min_p}
"""What leaves some tokens out, in this order, when top_k has: each takes and gives choices."""


def draw_few(weights: list[float], chance: float) -> int:
    """The same as `draw`, of plain numbers."""
    ends = list(accumulate(weights))
    return min(bisect_right(ends, chance * ends[-1]), bisect_left(ends, ends[-1]))


def check_peak(peak: float | np.floating) -> None:
    """Refuse logits whose largest is not a number one can draw from."""
    if isfinite(peak):
        return
    if peak == -inf:
        raise GenerationError("no token can follow: every one of them is forbidden (see logit_bias)")
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


def nucleus(logits: np.ndarray, weights: np.ndarray, options: Options) -> np.ndarray:
    """Ids of the fewest tokens that hold `top_p` of all weight.

    The 256 likeliest are nearly always enough. If not, the values are sorted (not the ids, which
    costs ten times as much) to find the smallest one that is needed.
    """
    goal = options.top_p * float(weights.sum(dtype=np.float64))
    ids = largest(logits, 256)
    reached = weights[ids].cumsum(dtype=np.float64)
    if reached[-1] >= goal:
        return ids[: covering(weights[ids], goal)]
    order = np.sort(logits)[::-1]
    count = covering(weigh(order, order[0], options.temperature), goal)
    above = np.flatnonzero(logits > order[count - 1])
    equal = np.flatnonzero(logits == order[count - 1])
    return np.concatenate([above, equal[: count - above.size]])


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


def log_probability(
    logits: np.ndarray, token: int, count: int, top: Top | None = None, weights: np.ndarray | None = None
) -> tuple[float, list[tuple[int, float]]]:
    """The logarithm of a token's probability, and the `count` likeliest tokens with theirs.

    Of the model's own distribution: before biases, penalties, temperature and filters. `top` saves looking for the
    largest, and `weights` (vocab,) float32 are overwritten, which is quicker than making new ones for each token.
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
