"""The completer: which offers a place has, what is shown unasked, and what is not computed again."""

from dataclasses import replace
from pathlib import Path

import pytest

from chatapp.completion.block import Block
from chatapp.completion.candidates import leave_closed, see
from chatapp.completion.completer import Completer
from chatapp.completion.index import FolderIndex
from chatapp.completion.place import OpenFile, Place
from chatapp.generation.engine import Engine
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import ScriptedSession, hashed, make_engine, saying, write_tokenizer

LINE = "    parser.add_argument('--verbose', help='more')\n"
LONG = Place(LINE * 2 + LINE[:36], "\n")
SHORT = Place("total = first\nvalue = ", "\n")
"""The end of its last line stood before, but is short."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def open_engine(tokenizer: Tokenizer, reply: str = "") -> tuple[Engine, ScriptedSession]:
    """An engine that is sure of its reply, or without one, of nothing."""
    end = tokenizer.token_id("<|endoftext|>")
    assert end is not None
    return make_engine(tokenizer, saying(tokenizer.encode(reply), end) if reply else hashed, 1024)


def test_a_long_match_is_shown_unasked_without_a_model() -> None:
    offers = Completer(None).offers(LONG)
    assert [(offer.text, offer.source) for offer in offers] == [(" help='more')", "file")]
    assert offers[0].probability > 0.5


def test_nothing_is_shown_unasked_before_a_word() -> None:
    within, behind = replace(LONG, suffix="more')\n"), replace(LONG, suffix="'more')\n")
    (asked,) = Completer(None).offers(within, invoked=True)
    assert (asked.text, asked.withheld) == (" help='", "it is followed by a word")
    assert Completer(None).offers(within) == [] and Completer(None).offers(behind)


def test_line_breaks_of_windows_change_nothing_and_half_a_character_is_none() -> None:
    text = LONG.prefix.replace("\n", "\r\n")
    assert Place(text, "\r\n", open_files=[OpenFile(None, text)]) == replace(
        LONG, open_files=[OpenFile(None, LONG.prefix)]
    )
    assert Place("'\ud83d", "\ude00'") == Place("'?", "?'")


def test_a_short_match_is_shown_only_when_asked_for() -> None:
    completer = Completer(None)
    assert completer.offers(SHORT) == []
    asked = completer.offers(SHORT, n=3, invoked=True)
    assert [offer.text for offer in asked] == ["first"] and "0.30" in asked[0].withheld


def test_what_an_editor_has_closed_already_is_not_offered_again(tokenizer: Tokenizer) -> None:
    engine, _ = open_engine(tokenizer, "path)\n")
    for path in (Path("a.py"), None):
        for line, left in {
            "load(": "path",
            "print(load(": "path)",
            "x = 1  # (": "path",
        }.items():  # the second: another's
            offer, *_ = Completer(engine).offers(Place(f"path = 1\n{line}", ")\n", path), invoked=True)
            assert offer.text == left


@pytest.mark.parametrize(
    ("text", "behind", "left"),
    [
        ("path)", ")", "path"),
        ("path)", "))\n", "path"),
        ('name")', '")\n', "name"),
        ("x]:", "]:", "x"),
        ("self, path):", ")", "self, path"),
        ('__main__":', '"', "__main__"),
        ("path)", ", more)", "path)"),
        ("path)", "\n)", "path)"),
        ("path", ")", "path"),
        (")", ")", ""),
    ],
)
def test_a_text_ends_where_brackets_and_quotes_stand_right_behind_the_place(text: str, behind: str, left: str) -> None:
    assert leave_closed(text, behind) == left


def test_the_threshold_decides() -> None:
    assert [offer.text for offer in Completer(None, threshold=0.0).offers(SHORT)] == ["first"]
    last = replace(SHORT, prefix="total = first\n\n\n\n\nvalue = ")  # no line is known to follow it
    assert [offer.text for offer in Completer(None, threshold=0.0).offers(last, lines=2)] == ["first"]
    assert Completer(None, threshold=0.999).offers(LONG) == []


def test_what_does_not_parse_there_is_shown_only_when_asked_for() -> None:
    text = "if first:\n    go(1)\nelse:\n    go(2)\n"
    right, wrong = (
        Place(text * 2 + text[:20] + "el", "\n", Path("a.py")),
        Place(text * 3 + "go(3)\nel", "\n", Path("a.py")),
    )
    completer = Completer(None, threshold=0.0)
    assert [offer.text for offer in completer.offers(right)] == ["se:"]
    assert completer.offers(wrong) == []
    (asked,) = completer.offers(wrong, invoked=True)
    assert asked.text == "se:" and "does not parse" in asked.withheld
    assert [offer.text for offer in completer.offers(replace(wrong, path=Path("a.txt")))] == ["se:"]


def test_the_sources_are_told_and_the_nearest_counts() -> None:
    other = OpenFile(Path("other.py"), "settings = read_settings(home)\n" * 3)
    place = Place("settings = read_settings(", "\n", Path("here.py"), (other,))
    (offer,) = Completer(None, threshold=0.0).offers(place)
    assert (offer.text, offer.source, offer.path) == ("home)", "open file", Path("other.py"))
    (nearer,) = Completer(None, threshold=0.0).offers(
        Place(other.text + place.prefix, "\n", place.path, place.open_files)
    )
    assert (nearer.source, nearer.path) == ("file", None)


def test_without_matching_only_the_model_has_offers(tokenizer: Tokenizer) -> None:
    engine, _ = open_engine(tokenizer, "42")
    assert Completer(None, matching=False).offers(LONG, invoked=True) == []
    offers = Completer(engine, matching=False).offers(LONG, n=5, invoked=True)
    assert {offer.source for offer in offers} == {"model"} and "42" in [offer.text for offer in offers]


def test_the_model_is_asked_from_when_it_is_open(tokenizer: Tokenizer) -> None:
    engine, session = open_engine(tokenizer, "42")
    completer = Completer(lambda: engine, threshold=0.0)
    assert [offer.source for offer in completer.offers(SHORT)] == ["file"] and not session.calls
    completer.open()
    assert "42" in [offer.text for offer in completer.offers(SHORT, n=5, invoked=True)] and session.calls


def test_what_was_shown_and_is_typed_on_is_not_computed_again(tokenizer: Tokenizer) -> None:
    engine, session = open_engine(tokenizer, "42 + first")
    completer = Completer(engine, threshold=0.0, matching=False)
    (shown,) = completer.offers(SHORT)
    computed = len(session.calls)
    (typed_on,) = completer.offers(Place(SHORT.prefix + shown.text[:3], SHORT.suffix))
    assert typed_on.text == shown.text[3:] and typed_on.probability >= shown.probability
    assert completer.offers(SHORT) == [shown]
    assert len(session.calls) == computed
    completer.offers(Place(SHORT.prefix + "z", SHORT.suffix))
    assert len(session.calls) > computed


@pytest.mark.parametrize("place", [Place(LONG.prefix, "\n\n"), Place(LONG.prefix, "\n", Path("b.py"))])
def test_what_is_known_of_another_place_is_not_offered(place: Place) -> None:
    completer = Completer(None)
    first = completer.offers(LONG)
    assert completer.offers(place) == first
    assert completer.offers(place) is not first


def test_nothing_is_offered_and_nothing_kept_when_it_is_not_wanted_any_more(tokenizer: Tokenizer) -> None:
    engine, session = open_engine(tokenizer, "42 + first")
    completer = Completer(engine)
    assert completer.offers(LONG, invoked=True, wanted=lambda: False) == []
    assert len(session.calls) <= 1
    assert completer.offers(LONG, invoked=True)


def test_a_model_that_knows_repositories_is_told_of_the_folder(tmp_path: Path) -> None:
    home = write_tokenizer(tmp_path / "tokenizer")
    spelling = (home / "tokenizer.json").read_text("utf-8")
    named = spelling.replace("<|im_start|>", "<file_sep>").replace("<|im_end|>", "<repo_name>")
    (home / "tokenizer.json").write_text(named, "utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "other.py").write_text("def count_words(text):\n    return len(text.split())\n", "utf-8")
    folder = FolderIndex(tmp_path / "folder")
    folder.scan()
    tokenizer = Tokenizer(home)
    engine, session = open_engine(tokenizer, "42")
    place = Place("words = count_words(text)\ntotal = ", "\n", tmp_path / "folder" / "here.py", folder=folder)
    Completer(engine).offers(place, invoked=True)
    said = tokenizer.vocabulary.decode(session.rows[0], False)
    assert said.startswith("<repo_name>folder<file_sep>other.py\ndef count_words")
    Completer(engine).offers(replace(place, folder=None), invoked=True)
    assert "<repo_name>" not in tokenizer.vocabulary.decode(session.rows[0], False)


def test_what_the_model_reads_stays_the_same_while_one_types() -> None:
    lines = "".join(f"value_{number} = {number}\n" for number in range(2000))
    read = {see(Place(lines + "x" * typed, "\n" + lines), 1024) for typed in range(40)}
    begun = {prefix.rstrip("x") for prefix, _ in read}
    assert len({suffix for _, suffix in read}) == 1 and len(begun) <= 2
    assert all(lines.endswith(prefix) and prefix.startswith("value_") for prefix in begun)
    assert all(1000 < len(prefix) + len(suffix) <= 512 * 3.5 for prefix, suffix in read)


def test_a_block_is_offered_to_its_end_and_no_further() -> None:
    block = "for name in names:\n    if name:\n        show(name)\n        count(name)\nprint(total)\n"
    begun = block * 3 + "\nfor name in names:\n    if name:\n        "
    completer = Completer(None, threshold=0.05)
    (offer,) = completer.offers(Place(begun, "\n"), lines=None)
    assert offer.text == "show(name)\n        count(name)"
    assert completer.offers(Place(begun, "\n"))[0].text == "show(name)"
    (two,) = completer.offers(Place(block * 3 + "\nfor name in na", "\n"), lines=2)
    assert two.text == "mes:\n    if name:"


@pytest.mark.parametrize("line", ["    show(name)", "    total += 1", "count(name)", "    after()"])
def test_a_line_that_is_there_already_or_not_inside_ends_the_block(line: str) -> None:
    block = Block.around(Place("for name in names:\n    ", "\n    after()\n"), None)
    assert block.holds("if name:", "        show(name)") and block.holds("show(name)", "    count(name)")
    assert not block.holds("show(name)\n    total += 1", line)
    assert not block.holds("if name:", "    show(name)")


@pytest.mark.parametrize(
    ("begun", "said", "line"),
    [
        ("  if (fir", "st) {\n    run();", "  } else {"),
        ("  tr", "y {\n    run();", "  } catch (error) {"),
        ("def f", "irst(\n    second,", ") -> int:"),
    ],
)
def test_what_is_opened_goes_on_where_a_line_ends_one_part_and_begins_another(begun: str, said: str, line: str) -> None:
    block = Block.around(Place(begun, "\n"), None)
    assert block.holds(said, line) and block.goes_on(f"{said}\n{line}")
    assert not block.holds(said, line.replace(line.strip(), "other(first):"))
    assert not Block.around(Place(begun, f"\n{line}\n"), None).holds(said, line)  # it is there already
    closed = f"{said}\n{line}\n    other()\n{line[: len(line) - len(line.lstrip())]}}}"
    assert not block.goes_on(closed)


def test_no_second_line_is_offered_where_the_line_goes_on_behind_the_cursor() -> None:
    text = "run(first(\n    second\n" * 3
    (offer,) = Completer(None, threshold=0.0).offers(Place(text + "run(fir", "\n"), lines=None)
    assert offer.text.startswith("st(\n")
    assert [
        each.text for each in Completer(None, threshold=0.0).offers(Place(text + "run(fir", "st(\n"), lines=None)
    ] == []
