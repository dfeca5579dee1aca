"""Python's syntax line by line, as far as colours need it, and cheap enough to run for each token."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 1000
"""Characters from which a line is data rather than code, and is not coloured."""
FENCES = ('"""', "'''")
CODE = re.compile(
    r"\s*(?:(?:async )?def \w+\(|class \w+[(:]|from [\w.]+ import |import [\w.]+(?: as \w+)?\s*$|@\w[\w.]*"
    r"|for .+ in .+:\s*$|if __name__|(?:self\.)?[a-z_][\w.]* [-+*/|]?= \S|return\b.*[().\[\]])"
)
KEYWORDS = (
    "False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global"
    "|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield"
)
TOKEN = re.compile(
    r"(?P<comment>#.*)"
    r"|(?P<fence>(?:\b[bfruBFRU]{1,2})?(?:\"\"\"|'''))"
    r"|(?P<string>(?:\b[bfruBFRU]{1,2})?(?:\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'?))"
    rf"|(?P<keyword>\b(?:{KEYWORDS})\b)"
    r"|(?P<number>\b\d[\w.]*)"
    r"|(?P<decorator>(?<!\S)@\w[\w.]*)"
)


Span = tuple[int, int, str]
"""Start, end and kind (comment, string, keyword, number or decorator) of a part of a line."""


def looks_like_python(lines: Sequence[str]) -> bool:
    """Whether one of the lines is Python rather than prose."""
    return any(CODE.match(line[:LONGEST]) for line in lines)


def fence_after(line: str, fence: str) -> str:
    """The triple quotes open after a line that begins inside `fence`; empty if none."""
    if not any(quotes in line for quotes in FENCES):
        return fence
    return parse(line, fence)[1]


def parse(line: str, fence: str) -> tuple[list[Span], str]:
    """The coloured parts of a line, and the triple quotes open at its end."""
    spans, place = list[Span](), 0
    if len(line) > LONGEST:
        return spans, fence
    if fence:
        if (end := line.find(fence)) < 0:
            return [(0, len(line), "string")], fence
        place = end + len(fence)
        spans.append((0, place, "string"))
    while found := TOKEN.search(line, place):
        kind, place = found.lastgroup or "", found.end()
        if kind == "fence":
            quotes = found[0][-3:]
            if (end := line.find(quotes, place)) < 0:
                return [*spans, (found.start(), len(line), "string")], quotes
            kind, place = "string", end + len(quotes)
        spans.append((found.start(), place, kind))
    return spans, ""
