"""Temperature, top_k, top_p and the like: small functions that remove or reweight candidates.

typical_p is as in transformers' logits_process.py; top_n_sigma, XTC, dynamic temperature and Mirostat 2, which
transformers lacks, are as in llama.cpp's llama-sampler.cpp.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import accumulate
from math import inf, log
from random import Random

import numpy as np

from chatapp.generation.decoding.candidates import Candidates, covering, largest, weigh
from chatapp.generation.options import KNOBS, ORDER, Options

Filter = Callable[[Candidates, Options, Random], None]


def list_filters(options: Options) -> list[Filter]:
    """The filters that the options ask for, in order; Mirostat is last."""
    order = dict.fromkeys((*options.sampler_order, *ORDER))
    found = [FILTERS[name] for name in order if getattr(options, SWITCHES.get(name, name)) != OFF[name]]
    return [*found, Mirostat(options.mirostat_tau)] if options.mirostat_tau else found


def apply_temperature(candidates: Candidates, options: Options, random: Random) -> None:
    """Divide the logits by the temperature, which may depend on the candidates' entropy."""
    temperature, reach = options.temperature, options.dynamic_temperature
    if reach and len(weights := candidates.weights) > 1:
        low, high = max(0.0, temperature - reach), temperature + reach
        share = (entropy(np.asarray(weights, np.float64)) / log(len(weights))) ** options.dynamic_exponent
        temperature = max(low + (high - low) * share, COLDEST)
    candidates.apply_temperature(temperature)


def keep_top_k(candidates: Candidates, options: Options, random: Random) -> None:
    """Keep the `top_k` most likely tokens."""
    candidates.keep_largest(options.top_k)


def keep_top_p(candidates: Candidates, options: Options, random: Random) -> None:
    """Keep the fewest tokens that hold `top_p` of the weight."""
    weights = candidates.weights
    if isinstance(weights, list):
        ends = list(accumulate(weights))
        candidates.cut(bisect_left(ends, options.top_p * ends[-1]) + 1)
    else:
        candidates.keep(nucleus(np.asarray(candidates.logits), weights, options.top_p, candidates.temperature))


def keep_min_p(candidates: Candidates, options: Options, random: Random) -> None:
    """Keep tokens with at least `min_p` of the largest weight."""
    weights, least = candidates.weights, options.min_p
    if isinstance(weights, list):
        candidates.cut(sum([weight >= least for weight in weights]))
    else:
        candidates.keep((weights >= least).nonzero()[0])


def keep_typical(candidates: Candidates, options: Options, random: Random) -> None:
    """Keep the tokens whose surprise is nearest to the entropy, up to `typical_p` of the weight."""
    weights = np.asarray(candidates.weights, np.float64)
    possible = np.flatnonzero(weights)
    chances = weights[possible] / weights.sum()
    distances = np.abs(-np.log(chances) - entropy(chances))
    nearest = np.argsort(distances, kind="stable")
    last = min(int((chances[nearest].cumsum() < options.typical_p).sum()), nearest.size - 1)
    candidates.keep(possible[distances <= distances[nearest[last]]])
    candidates.forget_weights()


def keep_top_n_sigma(candidates: Candidates, options: Options, random: Random) -> None:
    """Keep tokens with logits at most `top_n_sigma` standard deviations below the largest."""
    logits = np.asarray(candidates.logits, np.float64)
    possible = logits[logits > -inf]
    candidates.keep(np.flatnonzero(logits >= possible.max() - options.top_n_sigma * possible.std()))


def exclude_top_choices(candidates: Candidates, options: Options, random: Random) -> None:
    """With `xtc_probability`, remove all tokens of at least `xtc_threshold` but the least likely of them."""
    if random.random() > options.xtc_probability:
        return
    weights = np.asarray(candidates.weights, np.float64)
    obvious = np.flatnonzero(weights / weights.sum() >= options.xtc_threshold)
    if obvious.size > 1:
        least = obvious[np.argsort(-weights[obvious], kind="stable")[-1]]
        candidates.keep(np.setdiff1d(np.arange(weights.size), obvious[obvious != least]))
        candidates.forget_weights()


class Mirostat:
    """Keeps the surprise of drawn tokens at a target, by adapting the largest surprise allowed."""

    def __init__(self, target: float):
        self.limit = 2 * target
        """The largest surprise allowed, in bits."""
        self.before: Candidates | None = None
        """The candidates that the last token was drawn from."""

    def __call__(self, candidates: Candidates, options: Options, random: Random) -> None:
        """Adapt to the token drawn last, and remove what is too surprising."""
        if self.before and (surprise := self.before.surprise) is not None:
            self.limit -= options.mirostat_eta * (surprise - options.mirostat_tau)
        weights = np.asarray(candidates.weights, np.float64)
        surprises = np.full(weights.size, inf)
        np.log2(weights.sum() / weights, out=surprises, where=weights > 0)
        candidates.keep(np.flatnonzero(surprises <= max(self.limit, surprises.min())))
        self.before = candidates


FILTERS: Mapping[str, Filter] = {
    "temperature": apply_temperature,
    "top_k": keep_top_k,
    "top_p": keep_top_p,
    "min_p": keep_min_p,
    "typical_p": keep_typical,
    "top_n_sigma": keep_top_n_sigma,
    "xtc": exclude_top_choices,
}
"""Filters by name, in their usual order."""
SWITCHES = {"xtc": "xtc_probability"}
"""The options of filters that are not named like them."""
OFF = {name: KNOBS[SWITCHES.get(name, name)].off for name in FILTERS}
COLDEST = 0.0001


def entropy(weights: np.ndarray) -> float:
    """The entropy of weights, in nats."""
    chances = weights[weights > 0] / weights.sum()
    return -float((chances * np.log(chances)).sum())


def nucleus(logits: np.ndarray, weights: np.ndarray, top_p: float, temperature: float) -> np.ndarray:
    """Indices of the fewest tokens that hold `top_p` of the weight.

    The 256 most likely are nearly always enough. If not, the values are sorted, not the indices, which takes ten times
    as long, to find the smallest value needed.
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
