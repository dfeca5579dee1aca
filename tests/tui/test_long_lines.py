"""chatapp.tui.widgets.long_lines: rows of very long lines are those that TextArea would make, and soon there."""

import random
import time

import pytest
from rich.text import Text
from textual.document._document import Document
from textual.document._wrapped_document import WrappedDocument

from chatapp.tui.widgets.long_lines import Line, Wrapped

WORDS = (
    "a",
    "word ",
    "of ",
    "verylongwordthatneverfits" * 2,
    "   ",
    "日本語",
    "🙂",
    "-",
    "e\u0301 ",
    "x" * 9,
    "\t",
)


def rows(wrapped: WrappedDocument) -> object:
    """All that it knows."""
    sections = [wrapped.get_sections(row) for row in range(wrapped.document.line_count)]
    return sections, wrapped._offset_to_line_info, wrapped._line_index_to_offsets, wrapped.height


def offsets(wrapped: WrappedDocument) -> object:
    """Where characters of the first two lines stand, a few of every row."""
    lengths = [len(wrapped.document[row]) for row in range(2)]
    return [wrapped.location_to_offset((row, column)) for row in range(2) for column in range(0, lengths[row] + 1, 9)]


@pytest.mark.parametrize("seed", range(60))
def test_a_change_wraps_a_line_as_wrapping_all_of_it_would(seed: int) -> None:
    chance = random.Random(seed)
    words = WORDS[: 10 + seed % 2]  # with tabs half of the time
    lines = ["".join(chance.choices(words, k=count)) for count in (60, 30, 3)]
    document = Document("\n".join(lines))
    wrapped = Wrapped(document)
    wrapped.wrap(20, 4)
    for _ in range(25):
        row = chance.randrange(2)
        start = chance.randrange(len(document[row]) + 1)
        end = min(len(document[row]), start + chance.choice((0, 0, 1, 7)))
        if chance.random() < 0.3:
            start = end = len(document[row])
        done = document.replace_range((row, start), (row, end), chance.choice(("", "x", *words)))
        wrapped.wrap_range((row, start), (row, end), done.end_location)
        anew = WrappedDocument(document)
        anew.wrap(20, 4)
        assert rows(wrapped) == rows(anew)
    assert offsets(wrapped) == offsets(anew)


def test_the_rows_of_a_line_are_those_that_it_would_be_divided_into() -> None:
    plain = Text("some words in two colours", "bold")
    for start, end in ((0, 7), (3, 12), (20, 25)):
        plain.stylize(f"color({start})", start, end)
    line = Line(plain.plain, plain.style)
    line.spans = list(plain.spans)
    sections = line.divide([5, 11, 14])
    for place, expected in enumerate(plain.divide([5, 11, 14])):
        assert sections[place].plain == expected.plain
        assert sorted(sections[place].spans) == sorted(expected.spans)
    assert len(sections) == 4


def test_a_megabyte_that_grows_is_wrapped_in_time() -> None:
    document = Document("words and " * 100_000)
    wrapped = Wrapped(document)
    wrapped.wrap(80, 4)
    begun = time.process_time()
    for _ in range(100):
        end = document.end
        wrapped.wrap_range(end, end, document.replace_range(end, end, "more ").end_location)
    assert time.process_time() - begun < 10  # wrapping all of it each time takes minutes
    assert wrapped.get_sections(0)[-1].endswith("more ")
