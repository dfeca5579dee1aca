"""Edit texts at random, in an editor that counts in its own way, and compare what the server has.

PYTHONPATH=tests:tests/offline python -m drills.edits [SECONDS] [SEED]
"""

import random
import sys
import time
from dataclasses import dataclass

from lsprotocol.types import Position, Range, TextDocumentContentChangePartial

from chatapp.lsp.document import Document, Encoding

PIECES = ("a", "\n", "\r\n", "\r", "\t", " ", "é", "日本", "🙂", "👩‍💻", "\x0c", "\u2028", "\x85", "e\u0301", "\0", "")
ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
BYTES = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
LONGEST = 400
"""Characters above which the text is cut down, so that line ends meet often."""


@dataclass(frozen=True)
class Edit:
    """A part of a text, by its characters, and what takes its place."""

    start: int
    end: int
    text: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end :]


def units(text: str, encoding: Encoding) -> int:
    """The length of a text as the editor counts it."""
    name, size = BYTES[encoding]
    return len(text.encode(name)) // size


def line_starts(text: str) -> list[int]:
    """Where each line begins, character by character as the protocol says it."""
    starts, i = [0], 0
    while i < len(text):
        i += 2 if text[i : i + 2] == "\r\n" else 1
        if text[i - 1] in "\r\n":
            starts.append(i)
    return starts


def position(text: str, place: int, encoding: Encoding) -> Position:
    """A place as the editor tells it."""
    line, start = max((line, start) for line, start in enumerate(line_starts(text)) if start <= place)
    return Position(line, units(text[start:place], encoding))


def is_place(text: str, place: int) -> bool:
    """Whether an editor can have its cursor there: not between the two characters of a line's end."""
    return text[place - 1 : place + 1] != "\r\n"


def random_edit(rng: random.Random, text: str) -> Edit:
    """An insertion, a deletion or both, somewhere."""
    places = [place for place in range(len(text) + 1) if is_place(text, place)]
    start = rng.choice(places)
    reach = 200 if len(text) > LONGEST else rng.choice((0, 0, 1, 3, 30))
    end = max(place for place in places if place <= max(start, start + reach))
    return Edit(start, end, "".join(rng.choices(PIECES, k=rng.choice((0, 1, 1, 2, 8)))))


def drill(rng: random.Random, encoding: Encoding, edits: int) -> int:
    """Make so many edits, several in one message now and then; how many of them left both texts equal."""
    text = "def f():\r\n\treturn '🙂'\n"
    document, done = Document(text, encoding), 0
    while done < edits:
        changes = []
        for _ in range(min(rng.choice((1, 1, 1, 4)), edits - done)):
            edit = random_edit(rng, text)
            where = Range(position(text, edit.start, encoding), position(text, edit.end, encoding))
            changes.append(TextDocumentContentChangePartial(where, edit.text))
            text = edit.apply(text)
        document.change(changes)
        assert document.text == text, (changes, text)
        assert [len(line) for line in document.lines[:-1]] == [
            after - before for before, after in zip(line_starts(text), line_starts(text)[1:], strict=False)
        ]
        done += len(changes)
    return done


def main(seconds: str = "600", seed: str = "") -> None:
    """Drill for some time, and say how many edits that were."""
    chosen = int(seed or time.time())
    print(f"seed {chosen}", flush=True)
    rng, end, edits = random.Random(chosen), time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        for encoding in ENCODINGS:
            edits += drill(rng, encoding, 500)
    print(f"{edits:,} edits, and the texts are equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
