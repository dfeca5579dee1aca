"""The reference: logits for the fixed prompts from the NumPy decoder, from PyTorch, or from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from backends import quantize
from backends.decoder import Decoder, Weights
from backends.reference import Session
from chatapp.evaluation.verify import NUMPY, VerifyError
from chatapp.evaluation.verify.prompts import Prompts, make_prompts
from model_store import Progress, StoredModel
from model_store.checkpoint.weights import Canonical
from model_store.convert import Watched, kept, open_checkpoint

Logits = tuple[np.ndarray, ...]
"""For each of the prompts, (rows, positions, vocab) float32."""


@dataclass(frozen=True)
class Reference:
    """What the logits should be."""

    name: str
    prompts: tuple[Prompts, ...]
    original: Logits
    """On the checkpoint's own weights."""
    rounded: Mapping[str, Logits] = field(default_factory=dict)
    """On weights rounded to a precision, by its name, as far as they are known; never to f32."""
    decoder: Logits = ()
    """What the NumPy decoder makes of the original weights, where the reference is another's."""


def from_numpy(model: StoredModel, precision: str, on_progress: Progress | None = None) -> Reference:
    """The NumPy decoder on the original checkpoint, and on the same weights rounded to `precision`."""
    decoder, weights = open_weights(model, on_progress, "reference")
    wanted = make_prompts(model, decoder)
    reference = Reference(NUMPY, wanted, compute(decoder, weights, wanted))
    return add_rounded(reference, model, precision, on_progress)


def add_numpy(
    reference: Reference, model: StoredModel, precision: str, on_progress: Progress | None = None
) -> Reference:
    """A reference of another make, and what the NumPy decoder makes of the same prompts, if rounding calls for it."""
    if quantize.precision(precision).bits == 32 or precision in reference.rounded:
        return reference
    decoder, weights = open_weights(model, on_progress, "reference")
    own = compute(decoder, weights, reference.prompts)
    return add_rounded(replace(reference, decoder=own), model, precision, on_progress)


def add_rounded(reference: Reference, model: StoredModel, precision: str, on_progress: Progress | None) -> Reference:
    """The reference, and what the NumPy decoder makes of the same prompts with rounded weights."""
    to = quantize.precision(precision)
    if to.bits == 32:
        return reference
    decoder, weights = open_weights(model, on_progress, f"reference at {precision}", precision)
    rounded = compute(decoder, quantize.Rounded(weights, to), reference.prompts)
    return replace(reference, rounded={**reference.rounded, precision: rounded})


def open_weights(
    model: StoredModel, on_progress: Progress | None = None, step: str = "", precision: str = "f32"
) -> tuple[Decoder, Weights]:
    """The decoder of a model and its original weights, whose reading is told under the name `step`.

    What the file has rounded already is as it is there, where `precision` is the file's own.
    """
    checkpoint, family, decoder = open_checkpoint(model.folder)
    weights = kept(checkpoint, Canonical(checkpoint, family, decoder), precision)
    return decoder, Watched(weights, on_progress, step) if on_progress else weights


def compute(decoder: Decoder, weights: Weights, wanted: Sequence[Prompts]) -> Logits:
    """The NumPy decoder's logits, in one pass over the weights for each of the prompts."""
    found = []
    for prompts in wanted:
        session, cut = Session(decoder, weights), prompts.first + 1
        if prompts.whole:
            start = session.forward(prompts.tokens[:, :cut])
            answer = session.forward(prompts.tokens[:, cut:], last=prompts.positions - 1)
            logits = np.concatenate([start, answer], axis=1)
        else:
            logits = session.forward(prompts.tokens, last=prompts.positions)
        found.append(check_finite(logits))
    return tuple(found)


def check_finite(logits: np.ndarray) -> np.ndarray:
    """The same as float32, unless there is nothing that could be compared with."""
    if not np.isfinite(logits).all():
        raise VerifyError(
            "the reference's own logits are not finite: the checkpoint is damaged, or its numbers too large"
        )
    return np.asarray(logits, np.float32)
