"""Make a model's Markdown safe to show: no links, no HTML, and nothing that takes minutes to lay out.

This is for display only; what is stored stays as the model wrote it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from chatapp.text.printable import printable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore

LONGEST_LINE: Final = 2_000
LONGEST_BLOCK: Final = 8_000
"""Most characters of a paragraph, list or table before a blank line is inserted."""
LARGEST_FENCE: Final = 300, 30_000
"""Most lines and characters of a block of code before another begins."""
COLOURED: Final = 500
"""Longest line of code that is coloured, in characters."""
DEEPEST: Final = 8
"""Most levels of nested quotes and lists; further marks are shown as text."""
MOST_INDENTED: Final = 24
STRUCTURE: Final = 300
"""Most lines and table cells that are laid out; the rest is shown as it was written."""

MOST: Final = 2_000, 100_000
"""Most lines and characters shown at all; more would stall whatever shows it."""
ENDED: Final = "⋯ The rest is saved but not shown here; copy or export to get all of it."

OURS: Final = "~" * 40
_PIECE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_LEAD: Final = r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_FENCE: Final = re.compile(rf"({_LEAD})(`{{3,}}(?=[^`\n]*\n?$)|~{{3,}})([^\n]*)\n?")
_UNDECIDED: Final = re.compile(rf"[ \t>*+\-_#.)|~`\d]*|{_LEAD}(?:`{{3,}}|~{{3,}})[^\n]*")
_MARKER: Final = re.compile(r"[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t\n]|$))")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})\n?")
RULES_OFF: Final = ("html_block", "html_inline", "reference", "link", "image", "autolink", "linkify")
"""Rules of Markdown that are off: links and HTML are shown as they were written."""


@cache
def shared_parser() -> MarkdownIt:
    """The parser for all threads, without links, images and HTML, which are shown as they were written."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("gfm-like", {"maxNesting": 100, "linkify": False}).disable(RULES_OFF)
    made.core.ruler.push("harmless", disarm)
    return compile_rules(made)


def compile_rules(parser: MarkdownIt) -> MarkdownIt:
    """Compile a parser's rules now: during a lazy first parse, a second thread would see half of them."""
    parser.parse("*text*")
    return parser


def disarm(state: StateCore) -> None:
    """Make decoded entities printable, and colour no code that takes long."""
    for token in state.tokens:
        if token.type == "fence" and (not token.info.strip() or max(map(len, token.content.split("\n"))) > COLOURED):
            token.info = "text"  # guessing the language takes long
        for part in (token, *(token.children or ())):
            part.content, part.info = printable(part.content), printable(part.info)


def tame(text: str) -> str:
    """Tame a whole text: returns the Markdown to show."""
    taming = Tame()
    return taming.feed(printable(text)) + taming.rest()


def cut(text: str) -> str:
    """Cut plain text to what is shown at all."""
    shown = "\n".join(text[: MOST[1]].split("\n", MOST[0])[: MOST[0]])
    return text if len(shown) == len(text) else f"{shown}\n{ENDED}"


class Tame:
    """Tames a printable text that arrives in fragments; the beginning of a line waits until its kind is known."""

    def __init__(self) -> None:
        self.held = ""
        """The beginning of a line of unknown kind."""
        self.column = 0
        """Characters of the current line that were returned."""
        self.opening: re.Match[str] | None = None
        """The opening fence of the current block of code."""
        self.plain = False
        """Whether the limit of layout is reached, so that the rest is shown as it was written."""
        self.structure = self.lines = self.size = 0
        """Lines and cells so far; lines and characters of the block."""
        self.shown_lines = self.shown = 0
        self.ended = False
        """Whether the limit of what is shown is reached."""

    def feed(self, fragment: str) -> str:
        """Add a fragment; returns what to append to the Markdown shown."""
        given: list[str] = []
        for piece in _PIECE.findall(fragment):
            if self.ended:
                break
            while (room := LONGEST_LINE - self.column - len(self.held)) < len(piece):
                place = piece.rfind(" ", max(0, room - 100), room) + 1 or room
                given.append(self.add(piece[:place] + "\n"))
                piece = piece[place:]
                if not self.in_code:
                    given.append("\n")
                    self.size = 0
                if self.is_full:
                    break
            given.append(self.end() if self.is_full else self.add(piece))
        return "".join(given)

    @property
    def is_full(self) -> bool:
        return self.shown_lines >= MOST[0] or self.shown >= MOST[1]

    def end(self) -> str:
        """Show nothing more, and say so."""
        self.ended, self.held = True, ""
        fence = OURS if self.plain else self.opening[2] if self.opening else ""
        return f"\n{fence}\n\n{ENDED}\n"

    def rest(self) -> str:
        """Return what was held back, at the end."""
        line, self.held = self.held, ""
        return self.begin(line) if line else ""

    @property
    def in_code(self) -> bool:
        return self.plain or self.opening is not None

    def add(self, piece: str) -> str:
        """Add at most one line, or a part of one."""
        if self.column:
            self.count(piece)
            return piece
        self.held += piece
        if not piece.endswith("\n") and len(self.held) < 200 and _UNDECIDED.fullmatch(self.held):
            return ""
        return self.rest()

    def count(self, piece: str) -> None:
        """Count what is returned."""
        self.size += len(piece)
        self.shown += len(piece)
        self.shown_lines += piece.endswith("\n")
        self.column = 0 if piece.endswith("\n") else self.column + len(piece)
        if not self.in_code:
            self.structure += piece.count("|")

    def begin(self, line: str) -> str:
        """Add the beginning of a line, or a whole one, with what must precede it."""
        if self.plain:
            before, line = self.go_on(f"{OURS}\n{OURS}\n"), unclosing(line)
        elif self.opening:
            lead, fence, info = self.opening.groups()
            lead = re.sub(r"[^>\s]", " ", lead)
            if closes(line, fence):
                self.opening, before = None, ""
            else:
                before = self.go_on(f"{lead}{fence}\n{lead}{fence}{info}\n")
        else:
            before, line = self.lay_out(line)
        self.lines += 1
        self.count(line)
        return before + line

    def go_on(self, seam: str) -> str:
        """End a block of code that is too large, and begin another."""
        if self.lines < LARGEST_FENCE[0] and self.size < LARGEST_FENCE[1]:
            return ""
        self.lines = self.size = 0
        return seam

    def lay_out(self, line: str) -> tuple[str, str]:
        """Lay out a line outside code: returns what must precede it, and the line with limited marks."""
        self.structure += 1
        before = ""
        if self.structure > STRUCTURE:
            self.plain, self.lines, self.size = True, 0, 0
            return f"\n{OURS}\n", unclosing(line)
        self.opening = _FENCE.fullmatch(line)
        if self.opening:
            self.lines = self.size = 0
        elif not line.strip():
            self.size = 0
        elif self.size > LONGEST_BLOCK:
            self.size, before = 0, "\n"
        return before, shallow(line)


def closes(line: str, fence: str) -> bool:
    """Whether a line ends a block of code."""
    marks = line.strip(" \t>\n")
    return len(marks) >= len(fence) and set(marks) == {fence[0]}


def unclosing(line: str) -> str:
    """Change a line in our own block of code so that it does not end it."""
    return f"    {line}" if closes(line, OURS) else line


def shallow(line: str) -> str:
    """Limit a line's marks of quotes and lists; further marks become text."""
    indentation = len(line) - len(line.lstrip(" \t"))
    if indentation > MOST_INDENTED:
        line = " " * MOST_INDENTED + line[indentation:]
    if _RULE.fullmatch(line):
        return line
    end = 0
    for _ in range(DEEPEST):
        if not (marker := _MARKER.match(line, end)):
            return line
        end = marker.end()
    if marker := _MARKER.match(line, end):
        return f"{line[: marker.end() - 1]}\\{line[marker.end() - 1 :]}"
    return line
