"""Where a reference comes from: the NumPy decoder, PyTorch, or a file."""

from pathlib import Path

from chatapp.evaluation.verify.reference import Reference, from_numpy
from model_store import Progress, StoredModel


def reference(
    model: StoredModel, precision: str, against: str | None = None, *, on_progress: Progress | None = None
) -> Reference:
    """What `against` names, `torch` or a file; the NumPy decoder if it names nothing."""
    if against == "torch":
        from chatapp.evaluation.verify.pytorch import from_torch

        return from_torch(model, precision, on_progress)
    if against:
        from chatapp.evaluation.verify.reference_file import from_file

        return from_file(Path(against), model, precision, on_progress)
    return from_numpy(model, precision, on_progress)
