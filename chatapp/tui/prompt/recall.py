"""The prompts that were sent before: to walk through, and to suggest from."""

from __future__ import annotations

from collections.abc import Sequence


class Recall:
    """Past prompts, first to last, and the draft after them; what is changed on the way is kept until one is sent."""

    def __init__(self) -> None:
        self.past: list[str] = []
        self.back = 0
        """How many prompts back from the draft the box is."""
        self.changed: dict[int, str] = {}
        """What was left in the box, by how far back that was."""

    def load(self, past: Sequence[str]) -> None:
        """Take up what was asked in earlier days, before what was asked since this was made."""
        self.past[:0] = past

    def add(self, text: str) -> None:
        """Remember a prompt that was sent; the next one begins anew."""
        if self.past[-1:] != [text]:
            self.past.append(text)
        self.back, self.changed = 0, {}

    def step(self, text: str, back: int) -> str | None:
        """Leave `text`, go so many prompts back, and give the one there; None where there is none."""
        target = self.back + back
        if not 0 <= target <= len(self.past):
            return None
        self.changed[self.back] = text
        self.back = target
        return self.changed.get(target, self.past[-target] if target else "")

    def suggest(self, text: str) -> str:
        """Suggest how a text goes on: as the latest prompt of one line that begins with it."""
        if len(text) < 2 or "\n" in text:
            return ""
        found = (past for past in reversed(self.past) if past.startswith(text) and past != text and "\n" not in past)
        return next(found, text)[len(text) :]
