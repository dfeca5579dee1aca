"""What the file itself has and what the model says, and which of them comes first."""

import json
from pathlib import Path

import pytest

from chatapp.cli.complete import complete
from chatapp.cli.printing import Form
from chatapp.completion.request import Request, from_file
from chatapp.generation.engine import Engine
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import hashed, make_engine, saying, write_tokenizer

LINE = "    parser.add_argument('--verbose', help='more')\n"
SHORT = "total = first\nvalue = "
"""The end of its last line stood before, but is short."""


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path))


def offers(engine: Engine | None, capsys: pytest.CaptureFixture[str], prefix: str, n: int = 1) -> list[tuple[str, str]]:
    """Source and text of each offer; without an engine, none may be opened."""

    def open_model() -> Engine:
        assert engine, "the file has enough"
        return engine

    request = Request(prefix, "\n", {"n": n, "max_tokens": 6, "seed": 1})
    assert complete(request, open_model, Form(json=True)) == 0
    lines = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    return [(line["source"], line["text"]) for line in lines]


def test_a_long_match_needs_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert offers(None, capsys, LINE + LINE[:36]) == [("file", " help='more')")]


def test_a_short_match_comes_first_where_the_model_is_unsure(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, _ = make_engine(tokenizer, hashed)
    assert offers(engine, capsys, SHORT) == [("file", "first")]
    several = offers(engine, capsys, SHORT, n=3)
    assert several[0] == ("file", "first") and len(several) == 3
    assert {source for source, _ in several[1:]} == {"model"}


def test_a_model_that_is_sure_comes_before_a_short_match(
    tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    end = tokenizer.token_id("<|endoftext|>")
    assert end is not None
    engine, _ = make_engine(tokenizer, saying(tokenizer.encode("42"), end))
    assert offers(engine, capsys, SHORT) == [("model", "42")]


def test_what_the_line_already_ends_with_is_not_offered_again() -> None:
    line = LINE.replace("\n", "\r\n")
    offer = from_file(Request(line + line[:36], "')\r\n"))
    assert offer and offer.text == " help='more"
    assert not from_file(Request(line + line[:36], "something else\n"))
    assert not from_file(Request(line + line[:36], " help='more')\r\n"))
    assert not from_file(Request("ab\nb", "\n"))
