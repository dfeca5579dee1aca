"""Compare the logits of what will really run with a reference, and keep the verdict with the variant.

`verdict.verify` does the work; the modules beneath it are the prompts with a session's walk through them, the
references, the comparison with what is tolerated, and the cut of a model.
"""

from backends.errors import UserError

ORIGINAL = "original weights"
"""What a comparison with the checkpoint's own weights is called in a verdict."""
NUMPY = "NumPy decoder"
"""The reference that is ours, and shares with every backend how config.json was read."""


class VerifyError(UserError):
    """There is nothing to compare with, or it does not belong to the model; the message says what to do."""


def describe_scope(reference: str) -> str:
    """The scope of a comparison with a reference: a verdict cannot be wiser than what it compares with."""
    if NUMPY in reference:
        return f"{reference}: the rounding and the runtime; not our reading of config.json"
    if "torch" in reference.lower():
        return f"{reference}: the rounding, the runtime and our reading of config.json"
    return f"{reference}: the rounding and the runtime; our reading of config.json, if others made that file"
