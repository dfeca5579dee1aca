"""Long pastes and command outputs, shown as short marks until the message is sent."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 20_000
"""Maximum characters of a paste that is not folded."""
MOST_LINES: Final = 200
MARK: Final = re.compile(r"\[(?:pasted|output of [^\[\]\n]+:) [\d,]+ (?:lines?|characters)(?: #\d+)?\]")


class Pastes:
    """The texts behind the marks; kept, so that undo can restore any mark."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """A mark for a long text; a short text unchanged."""
        lines = text.removesuffix("\n").count("\n") + 1
        if len(text) <= LONGEST and lines <= MOST_LINES:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return self.keep(f"pasted {size}", text)

    def keep(self, label: str, text: str) -> str:
        """A mark with this label that stands for a text."""
        mark, number = f"[{label}]", 2
        while self.texts.get(mark, text) != text:
            mark, number = f"[{label} #{number}]", number + 1
        self.texts[mark] = text
        return mark

    def unfold(self, text: str) -> str:
        """The text with every mark replaced by its paste."""
        return MARK.sub(lambda mark: self.texts.get(mark[0], mark[0]), text) if self.texts else text

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Start and end of each mark in a line."""
        return [mark.span() for mark in MARK.finditer(line) if mark[0] in self.texts] if self.texts else []
