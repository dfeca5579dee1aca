"""Earlier prompts, to step through and to suggest from."""

from __future__ import annotations

from collections.abc import Sequence


class Recall:
    """Earlier prompts, oldest first, and then the draft; edits made while stepping are kept until one is sent."""

    def __init__(self) -> None:
        self.past: list[str] = []
        self.back = 0
        """How many prompts before the draft the box shows."""
        self.changed: dict[int, str] = {}
        """Edited texts, by how far back they are."""

    def load(self, past: Sequence[str]) -> None:
        """Add prompts of earlier sessions."""
        self.past[:0] = past

    def add(self, text: str) -> None:
        """Add a prompt that was sent; stepping starts anew."""
        if self.past[-1:] != [text]:
            self.past.append(text)
        self.back, self.changed = 0, {}

    def step(self, text: str, back: int) -> str | None:
        """Leave `text`, go `back` prompts back, and return the text there; None if there is none."""
        target = self.back + back
        if not 0 <= target <= len(self.past):
            return None
        self.changed[self.back] = text
        self.back = target
        return self.changed.get(target, self.past[-target] if target else "")

    def suggest(self, text: str) -> str:
        """The rest of the latest one-line prompt that begins with this text."""
        if len(text) < 2 or "\n" in text:
            return ""
        found = (past for past in reversed(self.past) if past.startswith(text) and past != text and "\n" not in past)
        return next(found, text)[len(text) :]
