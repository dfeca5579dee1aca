"""Damage that SQLite does not see costs the row that has it, and one line."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from chatapp.cli.main import main
from chatapp.history import History, HistoryError
from chatapp.settings import settings
from support.messages import ask, texts

Damage = Callable[[str], None]


@pytest.fixture
def damage() -> Damage:
    """Two conversations of two messages each, and SQL that damages them where a connection checks nothing."""
    (settings.home() / "history.db").parent.mkdir(parents=True, exist_ok=True)
    with History(settings.home() / "history.db") as history:
        ask(history, "first question", "first answer")
        ask(history, "second question", "second answer")

    def run(sql: str) -> None:
        with closing(sqlite3.connect(settings.home() / "history.db")) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(sql)
            connection.commit()

    return run


NO_UTF8 = "CAST(x'ff80fe' AS TEXT)"
ROWS = [
    f"UPDATE conversations SET title = {NO_UTF8} WHERE id = 1",
    f"UPDATE conversations SET title = x'ff00', model = {NO_UTF8} WHERE id = 1",
    "UPDATE conversations SET setup = '{\"model\": ' WHERE id = 1",
    "UPDATE conversations SET setup = '[NaN]' WHERE id = 1",
    "UPDATE conversations SET kind = 'chut' WHERE id = 1",
    "UPDATE conversations SET created = 1e300, updated = 'now' WHERE id = 1",
    "UPDATE conversations SET leaf = 77 WHERE id = 1",
    "UPDATE conversations SET leaf = 'x' WHERE id = 1",
    f"UPDATE messages SET text = {NO_UTF8} WHERE id = 1",
    "UPDATE messages SET text = x'00ff' WHERE id = 2",
    "UPDATE messages SET role = 'asistant' WHERE id = 2",
    "UPDATE messages SET options = 'x', usage = '[]' WHERE id = 2",
    "UPDATE messages SET parent = 2 WHERE id = 1",
    "UPDATE messages SET parent = 99 WHERE id = 2",
    "UPDATE messages SET parent = x'02', created = -1e9, finish_reason = 5 WHERE id = 2",
    "INSERT INTO tokens VALUES (2, x'789c00')",
]
COMMANDS = [
    ("ls",),
    ("ls", "--json"),
    ("show", "1"),
    ("show", "1", "--json"),
    ("export", "--all"),
    ("export", "--all", "--format", "html"),
    ("export", "--all", "--format", "json"),
    ("search", "question"),
    ("search", "?"),
]


@pytest.mark.parametrize("sql", ROWS)
def test_a_damaged_row_costs_itself_and_the_others_are_read(
    damage: Damage, sql: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(sql)
    for command in COMMANDS:
        code = main(["sessions", *command])
        printed = capsys.readouterr()
        assert (code, "Error" in printed.err) == (1 if command == ("search", "?") else 0, False), (command, printed)
        assert all(line.startswith("Warning: ") for line in printed.err.splitlines())
        if command != ("search", "?") and "1" not in command:
            assert "second question" in printed.out
    with History(settings.home() / "history.db") as history:
        assert texts(history, 2) == ["second question", "second answer"]
        ask(history, "third question", conversation=2, parent=4)
        assert history.prompts()[0] == "third question"
        assert not history.tokens(2) and not history.latencies(1)


def test_what_is_damaged_is_named_once(damage: Damage, capsys: pytest.CaptureFixture[str]) -> None:
    damage("UPDATE conversations SET setup = 'x' WHERE id = 1")
    damage("UPDATE messages SET role = 'x', usage = '' WHERE id = 2")
    main(["sessions", "show", "1"])
    printed = capsys.readouterr()
    assert "[Model, damaged]\nfirst answer" in printed.out
    assert printed.err.splitlines() == [
        "Warning: conversation 1 is damaged: its setup cannot be read",
        "Warning: message 2 of conversation 1 is damaged: its role and its usage cannot be read",
    ]


def test_a_title_that_is_no_utf_8_is_shown_with_replacement_characters(
    damage: Damage, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(f"UPDATE conversations SET title = 'my ' || {NO_UTF8} WHERE id = 1")
    main(["sessions", "ls", "--json"])
    assert [one["title"] for one in json.loads(capsys.readouterr().out)] == ["second question", "my \ufffd\ufffd\ufffd"]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE conversations RENAME COLUMN setup TO satup",
        "ALTER TABLE messages RENAME COLUMN text TO tekst",
        "DROP TABLE messages",
        f"UPDATE sqlite_master SET sql = {NO_UTF8} WHERE name = 'messages'",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE messages (' WHERE name = 'messages'",
        "UPDATE sqlite_master SET rootpage = 9999 WHERE name = 'conversations'",
        "DELETE FROM words_config",
    ],
)
def test_a_damaged_schema_is_one_line_and_the_file_is_left_alone(
    damage: Damage, sql: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(sql)
    before = (settings.home() / "history.db").read_bytes()
    for command in COMMANDS:
        code = main(["sessions", *command])
        printed = capsys.readouterr()
        if code == 1 and printed.err:
            assert printed.err.startswith("Error: ") and printed.err.count("\n") == 1
            assert "history.db" in printed.err and "it was not changed; move it away" in printed.err
    assert any(main(["sessions", *command]) for command in COMMANDS)
    assert (settings.home() / "history.db").read_bytes() == before


def test_a_damaged_schema_is_told_when_a_message_would_be_saved(damage: Damage) -> None:
    damage("DROP TABLE words_data")
    with pytest.raises(HistoryError, match="damaged"), History(settings.home() / "history.db") as history:
        ask(history, "third question")
