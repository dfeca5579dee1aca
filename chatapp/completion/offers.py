"""What is offered for a place in code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chatapp.completion.candidates import Candidate, Source


@dataclass(frozen=True)
class Offer:
    """A text for the place."""

    text: str
    source: Source
    """Where it was found first; the model where it stands nowhere."""
    probability: float
    """That it is, to the letter, what will be written."""
    withheld: str = ""
    """Why it is shown only when asked for; empty where it is shown unasked."""
    path: Path | None = None
    """The other file it was found in."""
    candidate: Candidate | None = None
    """What spoke for it."""

    def begins_with(self, typed: str) -> bool:
        """Whether what was typed is its beginning, and not all of it."""
        return self.text.startswith(typed) and len(self.text) > len(typed)
