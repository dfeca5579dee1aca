"""The reference: logits for the fixed prompts, from the NumPy decoder, PyTorch, or a file."""

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
"""For each `Prompts`, (rows, positions, vocab) float32."""


@dataclass(frozen=True)
class Reference:
    """The expected logits."""

    name: str
    prompts: tuple[Prompts, ...]
    original: Logits
    """With the checkpoint's own weights."""
    rounded: Mapping[str, Logits] = field(default_factory=dict)
    """With weights rounded to a precision, by its name, as far as known; never f32."""
    decoder: Logits = ()
    """The NumPy decoder's logits with the original weights, if the reference is another's."""


def from_numpy(model: StoredModel, precision: str, on_progress: Progress | None = None) -> Reference:
    """The NumPy decoder's logits, with the original weights and with those rounded to `precision`."""
    decoder, weights = open_weights(model, on_progress, "reference")
    wanted = make_prompts(model, decoder)
    reference = Reference(NUMPY, wanted, compute(decoder, weights, wanted))
    return add_rounded(reference, model, precision, on_progress)


def add_numpy(
    reference: Reference, model: StoredModel, precision: str, on_progress: Progress | None = None
) -> Reference:
    """Add the NumPy decoder's logits to another's reference, and its rounded ones if there is rounding."""
    if quantize.precision(precision).bits == 32 or precision in reference.rounded:
        return reference
    decoder, weights = open_weights(model, on_progress, "reference")
    own = compute(decoder, weights, reference.prompts)
    return add_rounded(replace(reference, decoder=own), model, precision, on_progress)


def add_rounded(reference: Reference, model: StoredModel, precision: str, on_progress: Progress | None) -> Reference:
    """Add the NumPy decoder's logits with rounded weights."""
    to = quantize.precision(precision)
    if to.bits == 32:
        return reference
    decoder, weights = open_weights(model, on_progress, f"reference at {precision}", precision)
    rounded = compute(decoder, quantize.Rounded(weights, to), reference.prompts)
    return replace(reference, rounded={**reference.rounded, precision: rounded})


def open_weights(
    model: StoredModel, on_progress: Progress | None = None, step: str = "", precision: str = "f32"
) -> tuple[Decoder, Weights]:
    """A model's decoder and original weights; reading them reports progress as `step`.

    If `precision` is a GGUF file's own, weights stay rounded as they are in it.
    """
    checkpoint, family, decoder = open_checkpoint(model.folder)
    weights = kept(checkpoint, Canonical(checkpoint, family, decoder), precision)
    return decoder, Watched(weights, on_progress, step) if on_progress else weights


def compute(decoder: Decoder, weights: Weights, wanted: Sequence[Prompts]) -> Logits:
    """The NumPy decoder's logits, with one pass over the weights for each `Prompts`."""
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
    """The logits as float32; raises VerifyError if they are not finite."""
    if not np.isfinite(logits).all():
        raise VerifyError(
            "the reference's own logits are not finite: the checkpoint is damaged, or its numbers too large"
        )
    return np.asarray(logits, np.float32)
