"""What came of calls."""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["done", "failed", "refused"]


@dataclass(frozen=True)
class Result:
    """What came of a call."""

    text: str
    """As the model is told it."""
    outcome: Outcome = "done"
