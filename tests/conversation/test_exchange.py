"""Conversations to files and back, the same from every front end."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatapp.conversation import files
from chatapp.generation import Alternative, Token
from chatapp.history import History
from chatapp.text.errors import InputError


@pytest.fixture
def history() -> Iterator[History]:
    """One conversation, whose answer has its tokens."""
    with History(None) as history:
        talk = history.create("chat", model="tiny")
        asked = history.add(talk.id, "user", "Why?", parent=None)
        answer = history.add(talk.id, "assistant", "So.", parent=asked.id)
        history.change(
            answer, tokens=[Token(1, "So", -0.5, (Alternative(2, "As", -1.5),), 0.01), Token(3, ".", -0.1, (), 0.01)]
        )
        yield history


def test_json_keeps_the_tokens_of_answers(history: History, tmp_path: Path) -> None:
    path = files.export(history, 1, given=str(tmp_path / "talk.json"))
    assert files.describe_import(files.import_file(history, str(path))) == "1 conversation imported"
    answer = history.messages(2)[-1]
    assert history.tokens(answer.id) == history.tokens(history.messages(1)[-1].id) != ()


def test_the_ending_says_the_form_unless_it_is_said(history: History, tmp_path: Path) -> None:
    assert "<html" in files.export(history, 1, given=str(tmp_path / "talk.html")).read_text()
    assert json.loads(files.export(history, 1, "json", str(tmp_path / "talk.txt")).read_text())
    with pytest.raises(InputError, match=r"talk\.odd must end in \.md, \.html or \.json"):
        files.export(history, 1, given=str(tmp_path / "talk.odd"))


def test_what_cannot_be_written_is_told_and_leaves_nothing(history: History, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory; choose another place"):
        files.export(history, 1, given=str(tmp_path / "nowhere" / "talk.md"))
    with pytest.raises(InputError, match="cannot write .*; choose another place"):
        files.write(Path("/"), "text")
    taken = tmp_path / "taken.md"
    taken.write_text("mine")
    with pytest.raises(InputError, match="already exists and was not changed"):
        files.export(history, 1, given=str(taken))
    assert [path.name for path in tmp_path.iterdir()] == ["taken.md"] and taken.read_text() == "mine"


def test_an_archive_is_not_taken_for_a_text(history: History, tmp_path: Path) -> None:
    (tmp_path / "export.zip").write_bytes(b"PK\x03\x04\0")
    with pytest.raises(InputError, match=r"export\.zip is an archive; unpack it"):
        files.import_file(history, str(tmp_path / "export.zip"))
