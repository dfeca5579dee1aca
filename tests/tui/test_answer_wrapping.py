"""Several answers: text that grows is wrapped as if it had come whole."""

import time

import pytest
from rich.cells import cell_len

from chatapp.text.printable import LONGEST_RUN
from chatapp.tui.answers.wrapping import Wrapped, wrap
from support.awkward_texts import LONG, TEXTS


@pytest.mark.parametrize("width", [4, 11, 26, 80])
def test_text_that_grows_is_wrapped_as_if_it_had_come_whole(width: int) -> None:
    whole, growing = Wrapped(width), Wrapped(width)
    whole.grow(LONG)
    for start in range(0, len(LONG), 7):
        growing.grow(LONG[start : start + 7])
    assert growing.rows == whole.rows


def test_no_row_is_wider_than_the_column() -> None:
    for text in TEXTS:
        wrapped = Wrapped(9)
        wrapped.grow(text)
        assert all(cell_len(row.removesuffix(" ")) <= 9 for row in wrapped.rows)


def test_rows_break_between_words_and_long_words_are_cut() -> None:
    assert wrap("one two three", 8) == ["one two ", "three"]
    assert wrap("a abcdefghij", 4) == ["a ", "abcd", "efgh", "ij"]
    assert wrap("    return a", 8) == ["    ", "return a"]


def test_growing_tells_the_first_row_that_changed() -> None:
    wrapped = Wrapped(8)
    assert wrapped.grow("one two") == 0
    assert wrapped.grow(" three") == 0
    assert wrapped.grow("\nfour") == 1
    assert wrapped.rows == ["one two ", "three", "four"]


def test_another_width_wraps_anew() -> None:
    wrapped = Wrapped(80)
    wrapped.grow("one two three\nfour")
    wrapped.resize(8)
    assert wrapped.rows == ["one two ", "three", "four"]


def test_a_flood_of_invisible_characters_in_small_doses_is_cut_off() -> None:
    wrapped = Wrapped(20)
    for _ in range(1000):
        wrapped.grow("\u200b" * 5)
    assert wrapped.rows == ["\u200b" * LONGEST_RUN]


def test_a_line_of_a_megabyte_costs_no_more_than_its_length() -> None:
    wrapped = Wrapped(40)
    start = time.process_time()
    for _ in range(1000):
        wrapped.grow("x" * 1000)
    assert time.process_time() - start < 2
    assert len(wrapped.rows) == 25_000
