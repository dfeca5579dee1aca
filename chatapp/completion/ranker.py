"""Rank candidates: a softmax over a dozen features, with a share for "none of them".

The weights in ranker.json were fitted by packaging/builtin_model/ranker.py, on code that no model here was trained on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import exp, log1p
from typing import Literal

from chatapp.completion.candidates import Candidate
from chatapp.completion.matches import Match
from chatapp.completion.syntax import name_language

FAR = 40
"""Longer matches, in characters, say nothing more."""
ROOT = 4
"""Lines' probabilities enter by their fourth root: lines of a few tokens are all unlikely."""
SHORT = 3
"""Shorter lines, in characters, may as well continue with any other brackets."""

FEATURES: Mapping[str, Callable[[Candidate], float]] = {
    "model": lambda it: exp(it.logprob / ROOT) if it.logprob is not None else 0.0,
    "empty": lambda it: float(not it.text),
    "short": lambda it: float(len(it.text) < SHORT),
    "faulty": lambda it: float(bool(it.fault)),
    "unknown names": lambda it: float(bool(it.unknown)),
    "file": lambda it: float(it.file is not None),
    "file length": lambda it: log1p(it.file.length) if it.file else 0.0,
    "file share": lambda it: it.file.share if it.file else 0.0,
    "file share by length": lambda it: it.file.share * measure(it.file) if it.file else 0.0,
    "other": lambda it: float(it.other is not None),
    "other length": lambda it: log1p(it.other.length) if it.other else 0.0,
    "other share": lambda it: it.other.share if it.other else 0.0,
    "other share by length": lambda it: it.other.share * measure(it.other) if it.other else 0.0,
}
"""The features of a candidate by name; the model's scores enter as probabilities only."""


def measure(match: Match) -> float:
    """The length of a match, scaled to 0..1."""
    return min(match.length, FAR) / FAR


@dataclass(frozen=True)
class Weights:
    """The weights of the features, and of "none of them"."""

    features: Mapping[str, float]
    none: float


@cache
def read_weights(kind: Literal["model", "files"], suffix: str = "") -> Weights:
    """The fitted weights, with a model or with files alone, for a file's ending.

    Python's also serve texts without an ending, and JavaScript's, which trust the model less, all other languages.
    """
    fitted = json.loads(resources.files(__package__).joinpath("ranker.json").read_text("utf-8"))
    stated = fitted["python" if not suffix or name_language(suffix) == "python" else "javascript"][kind]
    return Weights(stated["features"], stated["none"])


def rank(candidates: Sequence[Candidate], weights: Weights) -> list[tuple[float, Candidate]]:
    """The candidates with their probabilities of being what will be written, best first."""
    scores = [sum(FEATURES[name](each) * weight for name, weight in weights.features.items()) for each in candidates]
    peak = max([*scores, weights.none])
    total = sum(exp(score - peak) for score in [*scores, weights.none])
    ranked = [(exp(score - peak) / total, each) for score, each in zip(scores, candidates, strict=True)]
    return sorted(ranked, key=lambda pair: -pair[0])
