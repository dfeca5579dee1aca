"""Verify a lowered model: compare its logits with a reference, and keep the verdict with it.

`verdict.verify` does the work, with the prompts and a session's walk through them, the references, the comparison with
its tolerances, and the cut of a model.
"""

from backends.errors import UserError

ORIGINAL = "original weights"
"""The name of a comparison with the checkpoint's own weights."""
NUMPY = "NumPy decoder"
"""Our own reference, which reads config.json with the same code as every backend."""


class VerifyError(UserError):
    """There is nothing to compare with, or it is another model's; the message says what to do."""


def describe_scope(reference: str) -> str:
    """What a comparison with this reference can show."""
    if NUMPY in reference:
        return f"{reference}: the rounding and the runtime; not our reading of config.json"
    if "torch" in reference.lower():
        return f"{reference}: the rounding, the runtime and our reading of config.json"
    return f"{reference}: the rounding and the runtime; our reading of config.json, if others made that file"
