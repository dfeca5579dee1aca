"""Ranks candidates for a place: a softmax over a dozen features, in which "none of them" has a share too.

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
"""Characters of a match beyond which it says nothing more."""
ROOT = 4
"""A line's probability says most by this root: lines of a few tokens are all unlikely."""
SHORT = 3
"""Characters below which a line may as well go on with any other brackets."""

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
"""What speaks for a candidate or against it, by name. Of the model's scale nothing counts but probabilities."""


def measure(match: Match) -> float:
    """How long a match is, from 0 to 1."""
    return min(match.length, FAR) / FAR


@dataclass(frozen=True)
class Weights:
    """What each feature weighs, and what "none of them" weighs."""

    features: Mapping[str, float]
    none: float


@cache
def read_weights(kind: Literal["model", "files"], suffix: str = "") -> Weights:
    """The fitted weights: where a model was asked or where files alone were looked at, in files of an ending.

    Python's serve texts without an ending too, and JavaScript's, which trust the model less, all other languages.
    """
    fitted = json.loads(resources.files(__package__).joinpath("ranker.json").read_text("utf-8"))
    stated = fitted["python" if not suffix or name_language(suffix) == "python" else "javascript"][kind]
    return Weights(stated["features"], stated["none"])


def rank(candidates: Sequence[Candidate], weights: Weights) -> list[tuple[float, Candidate]]:
    """The candidates with the probability that each is what will be written, the best first."""
    scores = [sum(FEATURES[name](each) * weight for name, weight in weights.features.items()) for each in candidates]
    peak = max([*scores, weights.none])
    total = sum(exp(score - peak) for score in [*scores, weights.none])
    ranked = [(exp(score - peak) / total, each) for score, each in zip(scores, candidates, strict=True)]
    return sorted(ranked, key=lambda pair: -pair[0])
