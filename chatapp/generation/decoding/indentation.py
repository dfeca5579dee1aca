"""Indentation of code as a constraint on tokens, and as the end of a body."""

import re
from collections.abc import Sequence
from copy import copy, deepcopy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from chatapp.generation.decoding.constraint import Lenient
from chatapp.generation.decoding.stop import StopStrings
from chatapp.generation.text.layout import Layout
from chatapp.generation.text.tokenizer import Tokenizer

PLACES = 64
"""Size of the cache of what may follow at a place."""
WIDEST = 255
"""Columns beyond this are all the same."""
PARTS = re.compile(r"\n|[^\S\n]+|\S[^\n]*")
"""The parts of a text: line breaks, other white space, and the rest of a line."""
NOTHING, COLON, OTHER, OPENING = range(4)
"""How a token ends its line; after OPENING, which may open a string or bracket, nothing is known of the next line."""
NO_TEXT = "?"
"""Stands for the text of special tokens and of parts of characters: some sign."""
OPENS = frozenset("\"'#()[]{}\\")


class LineBreaks:
    """The white space in a vocabulary's tokens: line ends, and how far following lines are indented."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int):
        self.tokenizer, self.vocab_size = tokenizer, vocab_size
        self.known: dict[Place, np.ndarray | None] = {}
        """Cache: what may follow at a place."""

    def text(self, token: int) -> str:
        """A token's text; "" for special tokens and parts of characters."""
        if token in self.tokenizer.control:
            return ""
        whole = self.tokenizer.whole(token)
        return self.tokenizer.name(token).replace("▁", " ") if whole is None else whole  # SentencePiece's space

    @cached_property
    def texts(self) -> list[str]:
        return [self.text(token) for token in range(self.vocab_size)]

    @cached_property
    def breaking(self) -> np.ndarray:
        """The tokens that contain a line break."""
        return np.array([token for token, text in enumerate(self.texts) if "\n" in text], np.int64)

    @cached_property
    def heads(self) -> np.ndarray:
        """How each of these ends its first line."""
        return np.array([kind_of(self.texts[token].partition("\n")[0]) for token in self.breaking], np.int64)

    @cached_property
    def tails(self) -> np.ndarray:
        """Indentation of the line that each of these begins, (tokens, 3)."""
        found = [margin(self.texts[token].rpartition("\n")[2]) for token in self.breaking]
        return np.array(found, np.int64).reshape(-1, 3)

    @cached_property
    def margins(self) -> np.ndarray:
        """White space at the beginning of every token, up to its first line break, (vocab, 3)."""
        found = np.tile(np.array(margin("x"), np.int64), (self.vocab_size, 1))
        for token, text in enumerate(self.texts):
            if not text or text[0].isspace():
                found[token] = margin(text.partition("\n")[0] if text else NO_TEXT)
        return found

    def allowed(self, place: "Place") -> np.ndarray | None:
        """Ids of the tokens that may follow at a place; None: all."""
        if place not in self.known:
            if len(self.known) >= PLACES:
                self.known.clear()
            wrong = self.forbidden(place)
            right = np.ones(self.vocab_size, bool)
            right[wrong] = False
            self.known[place] = np.flatnonzero(right) if wrong.size else None
        return self.known[place]

    def forbidden(self, place: "Place") -> np.ndarray:
        """Ids of the tokens that may not follow at a place."""
        if place.written is None:
            wrong = np.zeros(self.breaking.size, bool)
            for ending, columns in zip((NOTHING, COLON, OTHER), place.columns, strict=True):
                if columns:
                    wrong |= (self.heads == ending) & self._wrong(self.tails, columns, place)
            found: np.ndarray = self.breaking[wrong]
            return found
        if not place.columns:
            return self.breaking[:0]
        (columns,) = place.columns
        misplaced = self._wrong(self.margins, columns, place)
        another = self._wrong(self.tails, columns, place._replace(written=0))
        misplaced[self.breaking] |= (self.heads == NOTHING) & another
        return np.flatnonzero(misplaced)

    def _wrong(self, margins: np.ndarray, columns: Sequence[int], place: "Place") -> np.ndarray:
        """Which of these margins cannot become an allowed column at this place."""
        places = np.zeros(WIDEST + 1, bool)
        places[[column for column in columns if column <= WIDEST]] = True
        spaces, tabs, ended = margins.T
        reached = np.minimum((place.written or 0) + spaces + tabs, WIDEST)
        odd = (spaces if place.tabs else tabs) > 0
        wrong: np.ndarray = odd | np.where(ended, ~places[reached], reached > columns[0])
        return wrong


class Place(NamedTuple):
    """A place in code, as far as it matters for the next token."""

    written: int | None
    """Width of the line's white space, if there is nothing else; otherwise None."""
    tabs: bool
    columns: tuple[tuple[int, ...], ...]
    """Columns where the line may begin; within a line, where the next one may, by how this one ends."""


def kind_of(head: str) -> int:
    """How a part of a line ends it: NOTHING, COLON, OTHER or OPENING."""
    if not head.strip():
        return NOTHING
    return OPENING if OPENS & set(head) else COLON if head.rstrip().endswith(":") else OTHER


def margin(line: str) -> tuple[int, int, bool]:
    """Leading spaces, leading tabs, and whether anything follows."""
    rest = line.lstrip(" \t")
    before = line[: len(line) - len(rest)]
    return before.count(" "), before.count("\t"), bool(rest.strip())


class Indentation(Lenient):
    """The constraint that lines of code begin only at columns where they can."""

    def __init__(self, breaks: LineBreaks, text: str, context: Sequence[int] = ()):
        """For a continuation of `text`, whose tokens are `context`."""
        self.breaks, self.layout = breaks, Layout()
        self.layout.add(text)
        self.detokenizer = breaks.tokenizer.detokenizer(context)
        self.read = 0

    def allowed(self, tokens: Sequence[int]) -> np.ndarray | None:
        """Ids of the tokens that may follow; None: all."""
        for token in tokens[self.read :]:
            self.layout.add(self.detokenizer.add(token))
        self.read = len(tokens)
        return self.breaks.allowed(self.place())

    def copy(self) -> "Indentation":
        other = copy(self)
        other.layout, other.detokenizer = deepcopy(self.layout), self.detokenizer.copy()
        return other

    def place(self) -> "Place":
        """The place of the next token."""
        layout = self.layout
        if not layout.blank:
            ends = tuple(tuple(layout.columns_next(colon=colon)) for colon in (None, True, False))
            return Place(None, layout.tabs, ends)
        columns, written = tuple(layout.columns()), len(layout.line)
        stands = layout.is_free or written > columns[0]
        return Place(written, layout.tabs, () if stands else (columns,))


class BodyEnd(StopStrings):
    """Stop strings that also stop where the body of the given text ends."""

    ends = True
    """Whether there is a body that can end."""
    space = ""
    """Trailing white space, which is part of the body only if more of it follows."""

    def add(self, text: str) -> str:
        """The text that can be shown now."""
        if self.found or not self.ends:
            return "" if self.found else super().add(text)
        body, ended = self._body(text)
        shown = super().add(body)
        if ended and not self.found:
            shown += super().flush()
            self.found, self.space = True, ""
        return shown

    def flush(self) -> str:
        """Return what was held back, at the end."""
        space, self.space = self.space, ""
        return super().add(space) + super().flush()

    def _body(self, text: str) -> tuple[str, bool]:
        """The part of the text in the body, and whether the body ends there."""
        raise NotImplementedError


class Dedent(BodyEnd):
    """Ends a block's body at a line that is not indented further than its heading."""

    def __init__(self, strings: Sequence[str], text: str):
        """For a continuation of `text`; without a heading at its end, only the strings stop it."""
        super().__init__(strings, going_on=True)
        self.layout = Layout()
        self.layout.add(text.rstrip() + "\n")
        self.ends = self.layout.due
        self.eager |= self.ends
        self.margin = self.layout.levels[-1]
        """The column of the heading."""
        self.begun = False
        """Whether the body has a line."""

    def _body(self, text: str) -> tuple[str, bool]:
        """The part of the text in the body, and whether the body ends there."""
        body = ""
        for part in PARTS.findall(text):
            if part.isspace():
                self.space += part
            else:
                if self.layout.blank and not self.layout.is_free:
                    inside = len(self.layout.line) > self.margin
                    if self.begun and not inside:
                        return body, True
                    self.begun |= inside
                body, self.space = body + self.space + part, ""
            self.layout.add(part)
        return body, False


class ClosingBrace(BodyEnd):
    """Ends with the closing brace, on its own line, of the brace that the text ends in."""

    def __init__(self, strings: Sequence[str], text: str):
        super().__init__(strings, going_on=True)
        self.eager = True
        opening = text.rstrip().rpartition("\n")[2]
        self.margin = len(opening) - len(opening.lstrip())
        _, broken, begun = text[len(text.rstrip()) :].rpartition("\n")
        self.heading = not broken
        """Whether the line with the opening brace is still being written."""
        self.line = opening if self.heading else begun
        """The current line."""

    def _body(self, text: str) -> tuple[str, bool]:
        *ended, rest = text.split("\n")
        body = ""
        for line in ended:
            self.line, body = self.line + line, body + line
            if self._closes():
                return body, True
            self.line, body, self.heading = "", body + "\n", False
        self.line += rest
        return body + rest, False

    def _closes(self) -> bool:
        line = self.line.strip()
        if self.heading:
            return line.count("{") <= line.count("}")
        outside = len(self.line) - len(self.line.lstrip()) <= self.margin
        return outside and line.startswith(("}", ")", "]")) and not line.endswith(("{", "(", "["))


def end_body(strings: Sequence[str], text: str) -> StopStrings:
    """Stop strings that end a block after a colon or in braces, whichever the text begins."""
    block = Dedent(strings, text)
    return ClosingBrace(strings, text) if not block.ends and text.rstrip().endswith("{") else block
