"""How far logits are from those of a reference, position by position, and how far they may be at each precision.

Two questions with two limits, for honest rounding costs more than many a defect does. The figures are of the golden
checkpoints of the tests, 34, whose weights are random, and of the built-in model, whose weights are trained.

- *Does it compute right?* The reference rounds its weights as the variant's were rounded, so that only what happens
  to the activations differs. At float32 that is at most 1.7e-5 of the logits' spread anywhere, and the smallest fault
  that was tried (one GELU for the other) makes 5.5e-4 of it: the limit, 3e-4, is twenty times the one and half the
  other. Activations in float16 make an error of 0.0008 to 0.0023 spreads (root mean square), in bfloat16 of 0.006 to
  0.023, and in 8 bits, as ONNX Runtime has them at int8 and int4, of 0.011 to 0.082; a missing window or cap makes 0.4
  to 1.4. What is smaller than this rounding shows in the same graph at float32, cut to a few layers (see `cut`):
  1.5e-5 is right there too, the two GELUs differ by 5.2e-4, and 1e-4 is allowed.
- *Is it still the model?* The divergence from the original weights, as a share of that of a model which knows nothing.
  At int8 it is 0.0003 to 0.017 (built-in: 0.0013), at int4 0.04 to 0.86 (built-in: 0.063), as random weights have
  nothing to spare. The limits are for what nobody would choose; at 4 bits, that nothing is left.

Agreement of the likeliest token is told and not judged: in random checkpoints, and at many places in trained ones, two
tokens are nearly as likely as each other, and any rounding turns some of them.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

LIMITED = {"peak": "max |Δ| in spreads", "error": "error in spreads", "lost": "share lost"}
"""The figures that may have limits, by field, as messages name them."""


@dataclass(frozen=True)
class Difference:
    """The first position where the greedy choice differs, after the same text."""

    prompt: int
    """Counted from 1."""
    position: int
    """The position of the last token read, from 1."""
    expected: int
    found: int
    margin: float
    """By how much the reference prefers its choice, in logits; if it is small, rounding may decide."""


@dataclass(frozen=True)
class Comparison:
    """The figures of one comparison, and their limits.

    They are None if nothing finite was found.
    """

    what: str
    against: str
    positions: int
    nonfinite: int
    """Positions with a NaN or infinite logit."""
    misranked: int
    """Positions where the largest logits that the runtime picked out are wrong."""
    max_error: float | None = None
    """The largest difference of a logit."""
    peak: float | None = None
    """The same relative to the spread: the reference's standard deviation within a position."""
    error: float | None = None
    """The root mean square difference, relative to the spread."""
    mean_kl: float | None = None
    """Mean Kullback-Leibler divergence from the reference, in nats."""
    max_kl: float | None = None
    lost: float | None = None
    """The mean divergence relative to that of a model that knows nothing, to which all tokens are alike."""
    top1: float | None = None
    """The share of positions with the same most likely token."""
    first_difference: Difference | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    """The largest values allowed for figures, by field."""

    @property
    def broken(self) -> list[str]:
        """The figures above their limits."""
        return [name for name, limit in self.limits.items() if (value := getattr(self, name)) is None or value > limit]

    @property
    def failures(self) -> list[str]:
        """What is wrong, in sentences."""
        name = f"{self.what}, with {self.against}"
        found = []
        if self.nonfinite:
            found.append(f"{name}: {self.nonfinite} of {self.positions} positions have logits that are not finite")
        if self.misranked:
            found.append(f"{name}: in {self.misranked} positions the runtime's top logits are not its largest")
        for figure in self.broken:
            value: float | None = getattr(self, figure)
            if value is not None:
                found.append(f"{name}: {LIMITED[figure]} {value:.2g}, allowed {self.limits[figure]:g}")
        return found

    @property
    def passed(self) -> bool:
        return not self.nonfinite and not self.misranked and not self.broken


class Tally:
    """Collects the positions of one comparison."""

    def __init__(self, what: str, against: str, limits: Mapping[str, float]):
        self.what, self.against, self.limits = what, against, limits
        self.nonfinite = self.misranked = 0
        self.figures: list[np.ndarray] = []  # (positions, 6): largest error, its square, variance, KL, known, agreement
        self.first_difference: Difference | None = None

    def add(self, expected: np.ndarray, found: np.ndarray, prompt: int, start: int) -> None:
        """Compare logits (positions, vocab) of consecutive positions; `prompt` and `start` count from 0."""
        finite = np.isfinite(found).all(-1)
        self.nonfinite += int((~finite).sum())
        starts = start + np.flatnonzero(finite)
        expected, found = expected[finite].astype(np.float64), found[finite].astype(np.float64)
        if not len(expected):
            return
        error = np.abs(found - expected)
        likelihood = log_softmax(expected)
        probability = np.exp(likelihood)
        kl = (probability * (likelihood - log_softmax(found))).sum(-1)
        known = (probability * likelihood).sum(-1) + math.log(expected.shape[-1])
        likeliest, chosen = expected.argmax(-1), found.argmax(-1)
        same = likeliest == chosen
        columns = error.max(-1), (error**2).mean(-1), expected.var(-1), np.maximum(kl, 0), known, same
        self.figures.append(np.stack(columns, axis=1))
        if self.first_difference is None and not same.all():
            i = int(same.argmin())
            margin = float(expected[i, likeliest[i]] - expected[i, chosen[i]])
            place = prompt + 1, int(starts[i]) + 1
            self.first_difference = Difference(*place, int(likeliest[i]), int(chosen[i]), margin)

    @property
    def comparison(self) -> Comparison:
        """The comparison of all positions."""
        table = np.concatenate(self.figures or [np.zeros((0, 6))])
        figures: dict[str, float] = {}
        if len(table):
            largest, square, variance, kl, known, same = table.mean(0).tolist()
            largest, spread = float(table[:, 0].max()), max(math.sqrt(variance), 1e-30)
            figures = {"max_error": largest, "peak": largest / spread, "error": math.sqrt(square) / spread}
            figures |= {"mean_kl": kl, "max_kl": float(table[:, 3].max()), "lost": kl / max(known, 1e-30), "top1": same}
        return Comparison(
            self.what,
            self.against,
            len(table) + self.nonfinite,
            self.nonfinite,
            self.misranked,
            **figures,
            first_difference=self.first_difference,
            limits=self.limits,
        )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities along the last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    found: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found


# What is tolerated


@dataclass(frozen=True)
class Tolerance:
    """The limits of a comparison at one precision, by field of `Comparison`."""

    computed: Mapping[str, float]
    """Compared with the reference on the same, rounded weights."""
    kept: Mapping[str, float]
    """Compared with the reference on the original weights."""


EXACT = Tolerance({"peak": 3e-4}, {"peak": 3e-4})
CUT = {"peak": 1e-4}
"""For a few layers at float32, where less error accumulates."""
BY_BITS = (
    (24, EXACT),
    (16, Tolerance({"error": 0.01}, {"lost": 0.002})),
    (7, Tolerance({"error": 0.2}, {"lost": 0.1})),
    (5, Tolerance({"error": 0.2}, {"lost": 0.5})),
    (0, Tolerance({"error": 0.2}, {"lost": 1.0})),
)
"""Tolerances by the least number of bits."""
BY_NAME = {"bf16": Tolerance({"error": 0.08}, {"lost": 0.02})}
"""bfloat16: eight of its bits are the exponent's."""


def find_tolerance(precision: str) -> Tolerance:
    """The tolerance of a precision, by the bits in its name."""
    if precision in BY_NAME:
        return BY_NAME[precision]
    bits = int(re.findall(r"\d+", precision)[0])  # int4-64, mxfp6-e2m3, f32
    return next(found for least, found in BY_BITS if bits >= least)
