"""Ranks candidates for a place: a softmax over a dozen features, in which "none of them" has a share too.

The weights in ranker.json were fitted by packaging/builtin_model/ranker.py, on code that no model here was trained on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import exp, log1p
from typing import Literal

from chatapp.completion.candidates import Candidate
from chatapp.completion.matches import Match

FAR = 40
"""Characters of a match beyond which it says nothing more."""
LEAST_LOGPROB = -40.0
"""Of what the model would never write."""

FEATURES: Mapping[str, Callable[[Candidate], float]] = {
    "logprob": lambda it: max(LEAST_LOGPROB, it.logprob or 0.0),
    "greedy": lambda it: float(it.greedy),
    "likeliest": lambda it: float(it.beam == 0),
    "said": lambda it: float(it.beam is not None),
    "empty": lambda it: float(not it.text),
    "in file": lambda it: float(it.file is not None),
    "length in file": lambda it: log1p(it.file.length) if it.file else 0.0,
    "longest in file": lambda it: measure(it.file),
    "share in file": lambda it: it.file.share if it.file else 0.0,
    "first in file": lambda it: float(bool(it.file and it.file.first)),
    "greedy and first in file": lambda it: float(bool(it.greedy and it.file and it.file.first)),
    "elsewhere": lambda it: float(it.other is not None),
    "length elsewhere": lambda it: log1p(it.other.length) if it.other else 0.0,
    "longest elsewhere": lambda it: measure(it.other),
    "share elsewhere": lambda it: it.other.share if it.other else 0.0,
    "first elsewhere": lambda it: float(bool(it.other and it.other.first)),
}
"""What speaks for a candidate or against it, by name."""


def measure(match: Match | None) -> float:
    """How long the longest match is, from 0 to 1; 0 for any other."""
    return min(match.length, FAR) / FAR if match and match.first else 0.0


@dataclass(frozen=True)
class Weights:
    """What each feature weighs, and what "none of them" weighs."""

    features: Mapping[str, float]
    none: float


@cache
def read_weights(kind: Literal["model", "files"]) -> Weights:
    """The fitted weights: where a model was asked, or where files alone were looked at."""
    stated = json.loads(resources.files(__package__).joinpath("ranker.json").read_text("utf-8"))[kind]
    return Weights(stated["features"], stated["none"])


def rank(candidates: Sequence[Candidate], weights: Weights) -> list[tuple[float, Candidate]]:
    """The candidates with the probability that each is what will be written, the best first."""
    scores = [sum(FEATURES[name](each) * weight for name, weight in weights.features.items()) for each in candidates]
    peak = max([*scores, weights.none])
    total = sum(exp(score - peak) for score in [*scores, weights.none])
    ranked = [(exp(score - peak) / total, each) for score, each in zip(scores, candidates, strict=True)]
    return sorted(ranked, key=lambda pair: -pair[0])
