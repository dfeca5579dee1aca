"""Temperature, top_k, top_p, min_p: small functions that leave some candidates out, or weigh them anew."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import accumulate

import numpy as np

from chatapp.generation.decoding.candidates import Candidates, covering, largest, weigh
from chatapp.generation.options import Options

Filter = Callable[[Candidates, Options], None]


def heat(candidates: Candidates, options: Options) -> None:
    """Divide the logits by the temperature."""
    candidates.heat(options.temperature)


def keep_top_k(candidates: Candidates, options: Options) -> None:
    """Keep the `top_k` likeliest tokens."""
    candidates.keep_largest(options.top_k)


def keep_top_p(candidates: Candidates, options: Options) -> None:
    """Keep the fewest tokens that hold `top_p` of all weight."""
    weights = candidates.weights
    if isinstance(weights, list):
        ends = list(accumulate(weights))
        candidates.cut(bisect_left(ends, options.top_p * ends[-1]) + 1)
    else:
        candidates.keep(nucleus(np.asarray(candidates.logits), weights, options.top_p, candidates.temperature))


def keep_min_p(candidates: Candidates, options: Options) -> None:
    """Keep the tokens with at least `min_p` of the likeliest's weight."""
    weights, least = candidates.weights, options.min_p
    if isinstance(weights, list):
        candidates.cut(sum([weight >= least for weight in weights]))
    else:
        candidates.keep((weights >= least).nonzero()[0])


FILTERS: Mapping[str, Filter] = {
    "temperature": heat,
    "top_k": keep_top_k,
    "top_p": keep_top_p,
    "min_p": keep_min_p,
}
"""What is done to the candidates, in this order, which is Hugging Face's; each where its option asks for it."""


def nucleus(logits: np.ndarray, weights: np.ndarray, top_p: float, temperature: float) -> np.ndarray:
    """Places of the fewest tokens that hold `top_p` of all weight.

    The 256 likeliest are nearly always enough. If not, the values are sorted (not the places, which
    costs ten times as much) to find the smallest one that is needed.
    """
    goal = top_p * float(weights.sum(dtype=np.float64))
    places = largest(logits, 256)
    reached = weights[places].cumsum(dtype=np.float64)
    if reached[-1] >= goal:
        return places[: covering(weights[places], goal)]
    order = np.sort(logits)[::-1]
    count = covering(weigh(order, order[0], temperature), goal)
    above = np.flatnonzero(logits > order[count - 1])
    equal = np.flatnonzero(logits == order[count - 1])
    return np.concatenate([above, equal[: count - above.size]])
