"""Longest matches: what followed the same text in the file and in others."""

import random
from pathlib import Path

from chatapp.completion.matches import (
    LEAST,
    MOST,
    OCCURRENCES,
    find_occurrences,
    matches_elsewhere,
    matches_in_file,
    pool,
)
from chatapp.completion.place import Occurrence, OpenFile, Place
from chatapp.generation import Surroundings

SEVERAL = "open(first)\n  open(second)\nwe open(second)\n"


def count_same(text: str, end: int, tail: str) -> int:
    """How many characters before `end` are as the tail's last ones, one by one."""
    size = 0
    while size < min(end, len(tail)) and text[end - 1 - size] == tail[-1 - size]:
        size += 1
    return size


def test_every_place_with_an_end_of_the_text_is_found_with_its_length() -> None:
    chance = random.Random(5)
    for _ in range(200):
        text = "".join(chance.choices("ab\n", k=chance.randrange(60)))
        tail = "".join(chance.choices("ab\n", k=chance.randrange(1, 12)))
        sizes = {end: count_same(text, end, tail) for end in range(len(text) + 1)}
        wanted = [(size, text[end:].partition("\n")[0]) for end, size in sizes.items() if size >= LEAST]
        assert [(each.length, each.line) for each in find_occurrences(text, tail)] == wanted


def test_of_many_places_those_with_the_longest_ends_are_found() -> None:
    text = "x = call(1)\n" * (OCCURRENCES + 50) + "y = call(2)\n"
    found = find_occurrences(text, "y = call(")
    assert [(each.length, each.line) for each in found] == [(9, "2)")]
    same = find_occurrences("    \n" * 1000, "    ")
    assert len(same) == OCCURRENCES and {each.length for each in same} == {4}


def test_no_more_than_most_characters_count() -> None:
    text = "a" * 500 + "b"
    assert find_occurrences(text, "a" * 300)[-1] == Occurrence(MOST, "b", None)


def test_the_longest_match_comes_first_and_of_equal_ones_the_nearest() -> None:
    found = matches_in_file(Place(SEVERAL + "we open(", "\n"))
    assert [(match.line, match.length, match.first) for match in found] == [("second)", 22, True), ("first)", 5, False)]
    assert found[0].share == (22**3 + 6**3) / (22**3 + 6**3 + 5**3)
    near = matches_in_file(Place("call(far)\ncall(near)\ncall(", "\n"))
    assert [match.line for match in near] == ["near)", "far)"]


def test_the_text_behind_the_cursor_is_looked_through_too() -> None:
    assert [match.line for match in matches_in_file(Place("value = ", "\nother = 3\nvalue = 4\n"))] == ["4", "3"]


def test_the_place_itself_is_no_match() -> None:
    assert matches_in_file(Place("unique = ", "\n")) == []


def test_what_the_line_already_ends_with_is_not_offered_again() -> None:
    line = "parser.add_argument('--verbose', help='more')\r\n"
    begun = line + line[:33]
    assert [match.line for match in matches_in_file(Place(begun, "')\r\n"))] == ["help='more"]
    assert matches_in_file(Place(begun, "something else\n")) == []


def test_other_files_are_told_by_their_paths() -> None:
    shown, hidden = OpenFile(Path("shown.py"), "run(engine, place)\n"), Path("hidden.py")

    class Folder:
        def occurrences(self, tail: str, path: Path | None) -> list[Occurrence]:
            assert (tail, path) == ("run(", Path("here.py"))
            return [Occurrence(4, "stale)", Path("shown.py")), Occurrence(4, "engine)", hidden)]

        def knows(self, name: str) -> bool:
            return False

        def surroundings(self, prefix: str, suffix: str, path: Path) -> Surroundings:
            raise NotImplementedError  # no model is asked

    found = matches_elsewhere(Place("run(", "\n", Path("here.py"), (shown,), Folder()))
    assert [(match.line, match.path) for match in found] == [("engine, place)", Path("shown.py")), ("engine)", hidden)]


def test_a_line_that_nobody_would_write_again_is_left_out() -> None:
    assert pool([Occurrence(9, "x" * 500, None), Occurrence(3, "short", None)], "\n")[0].line == "short"
