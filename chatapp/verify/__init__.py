"""Compare the logits of what will really run with a reference, and keep the verdict with the variant.

`verdict.verify` does the work; the modules beneath it are the prompts, the references, the session's walk through
the prompts, what is measured, and what is tolerated.
"""

ORIGINAL = "original weights"
"""What a comparison with the checkpoint's own weights is called in a verdict."""
