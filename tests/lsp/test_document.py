"""The server's text equals the editor's, whatever is edited and however places are counted."""

import random

import pytest
from drills.edits import ENCODINGS, Edit, drill, units
from lsprotocol.types import (
    Position,
    Range,
    TextDocumentContentChangePartial,
    TextDocumentContentChangeWholeDocument,
)

from chatapp.lsp.document import Document, Encoding


def replace(document: Document, first: tuple[int, int], last: tuple[int, int], text: str) -> None:
    document.change([TextDocumentContentChangePartial(Range(Position(*first), Position(*last)), text)])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_random_edits_leave_the_texts_equal(encoding: Encoding) -> None:
    assert drill(random.Random(7), encoding, edits=1500) == 1500


def test_only_what_the_protocol_calls_a_line_end_ends_a_line() -> None:
    document = Document("a\x0cb\x85c\u2028d\x1ce\nf\rg\r\nh", "utf-16")
    assert document.lines == ["a\x0cb\x85c\u2028d\x1ce\n", "f\r", "g\r\n", "h"]


def test_a_carriage_return_and_a_newline_that_come_together_are_one_line_end() -> None:
    document = Document("a\rb\nc", "utf-16")
    replace(document, (1, 0), (1, 1), "")
    assert document.lines == ["a\r\n", "c"]
    replace(document, (0, 1), (0, 1), "x\ry")
    assert document.lines == ["ax\r", "y\r\n", "c"]


@pytest.mark.parametrize(("encoding", "width"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
def test_places_are_counted_in_the_units_of_the_editor(encoding: Encoding, width: int) -> None:
    document = Document("é🙂x = 1\n", encoding)
    before = units("é", encoding)
    assert document.find(Position(0, before + width)) == (0, 2)
    assert document.position(0, 2) == Position(0, before + width)
    if width > 1:
        assert document.find(Position(0, before + 1)) == (0, 1), "within a character is before it"


def test_a_place_beyond_the_text_is_at_its_end() -> None:
    document = Document("one\r\ntwo", "utf-16")
    assert document.find(Position(0, 99)) == (0, 3)
    assert document.find(Position(9, 0)) == (1, 3)


def test_the_halves_of_a_pair_that_come_one_after_the_other_are_one_character() -> None:
    document = Document("", "utf-16")
    replace(document, (0, 0), (0, 0), "\ud83d")
    replace(document, (0, 1), (0, 1), "\ude42")
    assert document.text == "🙂"


def test_a_whole_text_takes_the_place_of_the_old_one() -> None:
    document = Document("old\n", "utf-16")
    document.change([TextDocumentContentChangeWholeDocument("new")])
    assert document.text == "new"


def test_only_so_much_around_a_place_is_read() -> None:
    document = Document("one\ntwo\nthree\n", "utf-16")
    assert document.before(2, 2, 4) == "o\nth"
    assert document.after(0, 1, 5) == "ne\ntw"
    assert document.before(1, 1, 99) == "one\nt"
    assert document.after(2, 5, 99) == "\n"


def test_an_edit_of_the_editor_model_is_what_it_says() -> None:
    assert Edit(1, 2, "x").apply("abc") == "axc"
