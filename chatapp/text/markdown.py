"""Markdown by a model, made safe to show: no links, no HTML, and nothing that takes a screen minutes to lay out.

All of it is for display only; what is stored stays as the model wrote it.
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
"""Characters of a paragraph, a list or a table, after which a blank line is put in."""
LARGEST_FENCE: Final = 300, 30_000
"""Lines and characters of a block of code; it goes on in the next one."""
COLOURED: Final = 500
"""Characters of the longest line of code that is coloured."""
DEEPEST: Final = 8
"""Quotes and lists in each other, marks of more are shown as they are."""
MOST_INDENTED: Final = 24
STRUCTURE: Final = 300
"""Lines and cells of tables that are laid out; what comes after them is shown as it was written."""

MOST: Final = 2_000, 100_000
"""Lines and characters that are shown at all; a page of more would stall whatever shows it."""
ENDED: Final = "⋯ The rest is kept but not shown here: copying and exporting give all of it."

OURS: Final = "~" * 40
_PIECE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_LEAD: Final = r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_FENCE: Final = re.compile(rf"({_LEAD})(`{{3,}}(?=[^`\n]*\n?$)|~{{3,}})([^\n]*)\n?")
_UNDECIDED: Final = re.compile(rf"[ \t>*+\-_#.)|~`\d]*|{_LEAD}(?:`{{3,}}|~{{3,}})[^\n]*")
_MARKER: Final = re.compile(r"[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?=[ \t\n]|$))")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})\n?")
RULES_OFF: Final = ("html_block", "html_inline", "reference", "link", "image", "autolink", "linkify")
"""What of Markdown is off: links and HTML are shown as they were written."""


@cache
def shared_parser() -> MarkdownIt:
    """The parser of all threads, which knows no links, images or HTML: they are shown as they were written."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("gfm-like", {"maxNesting": 100, "linkify": False}).disable(RULES_OFF)
    made.core.ruler.push("harmless", disarm)
    return compile_rules(made)


def compile_rules(parser: MarkdownIt) -> MarkdownIt:
    """Compile a parser's rules now: left to its first parse, a second one in another thread sees half of them."""
    parser.parse("*text*")
    return parser


def disarm(state: StateCore) -> None:
    """Judge what entities became, which can be any character, and colour no code that takes long."""
    for token in state.tokens:
        if token.type == "fence" and (not token.info.strip() or max(map(len, token.content.split("\n"))) > COLOURED):
            token.info = "text"  # no language is guessed, which takes long
        for part in (token, *(token.children or ())):
            part.content, part.info = printable(part.content), printable(part.info)


def tame(text: str) -> str:
    """Tame a whole text: the Markdown to show for it."""
    taming = Tame()
    return taming.feed(printable(text)) + taming.rest()


def cut(text: str) -> str:
    """Cut a text that is no Markdown to as much as is shown at all."""
    shown = "\n".join(text[: MOST[1]].split("\n", MOST[0])[: MOST[0]])
    return text if len(shown) == len(text) else f"{shown}\n{ENDED}"


class Tame:
    """Tames a text that arrives in fragments, already printable; the beginning of a line waits until it is known."""

    def __init__(self) -> None:
        self.held = ""
        """The beginning of a line that may become anything."""
        self.column = 0
        """Characters given of the line that is being written."""
        self.opening: re.Match[str] | None = None
        """How the block of code that is open began."""
        self.plain = False
        """Whether so much was laid out that the rest is shown as it was written."""
        self.structure = self.lines = self.size = 0
        """Lines and cells so far; lines and characters of the block."""
        self.shown_lines = self.shown = 0
        self.ended = False
        """Whether as much is shown as can be."""

    def feed(self, fragment: str) -> str:
        """Take a fragment, and give what to add to the Markdown that is shown."""
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
        """The text has ended: what was held back."""
        line, self.held = self.held, ""
        return self.begin(line) if line else ""

    @property
    def in_code(self) -> bool:
        return self.plain or self.opening is not None

    def add(self, piece: str) -> str:
        """At most one line, or some of one."""
        if self.column:
            self.count(piece)
            return piece
        self.held += piece
        if not piece.endswith("\n") and len(self.held) < 200 and _UNDECIDED.fullmatch(self.held):
            return ""
        return self.rest()

    def count(self, piece: str) -> None:
        """Take note of what is given."""
        self.size += len(piece)
        self.shown += len(piece)
        self.shown_lines += piece.endswith("\n")
        self.column = 0 if piece.endswith("\n") else self.column + len(piece)
        if not self.in_code:
            self.structure += piece.count("|")

    def begin(self, line: str) -> str:
        """The beginning of a line, or all of it, after what must stand before it."""
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
        """End a block of code that has become too large, and begin the next."""
        if self.lines < LARGEST_FENCE[0] and self.size < LARGEST_FENCE[1]:
            return ""
        self.lines = self.size = 0
        return seam

    def lay_out(self, line: str) -> tuple[str, str]:
        """Lay out a line that is not code: what must stand before it, and the line with its marks limited."""
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
    """A line in our own block of code, which it cannot end."""
    return f"    {line}" if closes(line, OURS) else line


def shallow(line: str) -> str:
    """A line with the marks of few enough quotes and lists; those of more are letters."""
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
