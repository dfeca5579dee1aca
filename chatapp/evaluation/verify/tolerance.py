"""How far logits may be from the reference's at each precision, and why.

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

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """What figures of a comparison may be at most; the names are those of `Comparison`."""

    computed: Mapping[str, float]
    """Against the reference on the same, rounded weights."""
    kept: Mapping[str, float]
    """Against the reference on the original weights."""


EXACT = Tolerance({"peak": 3e-4}, {"peak": 3e-4})
CUT = {"peak": 1e-4}
"""For a few layers at float32, in which less adds up."""
BY_BITS = (
    (24, EXACT),
    (16, Tolerance({"error": 0.01}, {"lost": 0.002})),
    (7, Tolerance({"error": 0.2}, {"lost": 0.1})),
    (5, Tolerance({"error": 0.2}, {"lost": 0.5})),
    (0, Tolerance({"error": 0.2}, {"lost": 1.0})),
)
"""From so many bits on."""
BY_NAME = {"bf16": Tolerance({"error": 0.08}, {"lost": 0.02})}
"""Sixteen bits, of which eight are the exponent's."""


def tolerance(precision: str) -> Tolerance:
    """The tolerance of a precision, by the bits that its name states."""
    if precision in BY_NAME:
        return BY_NAME[precision]
    bits = int(re.findall(r"\d+", precision)[0])  # int4-64, mxfp6-e2m3, f32
    return next(found for least, found in BY_BITS if bits >= least)
