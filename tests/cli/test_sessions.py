"""`chatapp sessions`: conversations listed, found, deleted, exported and imported."""

import json
import re
import stat
from pathlib import Path

import pytest

from chatapp.history import History
from support.checkpoints import Run
from support.kept_conversations import conversations, greet


@pytest.fixture
def database(home: Path) -> Path:
    return home / "history.db"


def test_conversations_are_listed_and_shown(chatapp: Run, database: Path) -> None:
    assert "No conversations yet" in chatapp("sessions", "ls").stderr
    assert "No conversations yet" in chatapp("sessions", "list").stderr
    assert "no conversations yet" in chatapp("sessions", "show").stderr
    greet(database, "one", "two\x1b[2J")
    lines = chatapp("sessions", "ls").stdout.splitlines()
    assert lines[0].split() == ["ID", "LAST", "USED", "MESSAGES", "MODEL", "TITLE"]
    assert [line.split()[0] for line in lines[1:]] == ["2", "1"]
    assert lines[1].endswith("tiny   two␛[2J")
    assert len(chatapp("sessions", "ls", "--limit", "1").stdout.splitlines()) == 2
    assert [one["title"] for one in json.loads(chatapp("sessions", "ls", "--json").stdout)] == ["two\x1b[2J", "one"]
    assert chatapp("sessions", "show").stdout == "2  two␛[2J\n\n[You]\ntwo␛[2J\n"
    assert json.loads(chatapp("sessions", "show", "1", "--json").stdout)["conversations"][0]["title"] == "one"
    missing = chatapp("sessions", "show", "7")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == "Error: there is no conversation 7; to list them: chatapp sessions ls\n"


def test_words_are_found_and_the_exit_code_tells(chatapp: Run, database: Path) -> None:
    greet(database, "where is the station", "hello")
    found = chatapp("sessions", "search", "the", "STATION")
    assert found.returncode == 0
    assert re.fullmatch(r"1  \d{4}-.*  where is the station\n   where is the station\n", found.stdout)
    [fact] = json.loads(chatapp("sessions", "search", "station", "--json").stdout)
    assert (fact["conversation"]["id"], fact["message"], fact["marks"]) == (1, 1, [[13, 20]])
    assert chatapp("sessions", "search", "nowhere").returncode == 1


def test_conversations_are_deleted_and_brought_back(chatapp: Run, database: Path) -> None:
    greet(database, "one", "two", "three")
    assert chatapp("sessions", "rm", "1", "3").stdout.startswith(
        "2 conversations deleted; to restore: chatapp sessions undo"
    )
    assert [one.title for one in conversations(database)] == ["two"]
    assert chatapp("sessions", "undo").stdout == "1  one\n3  three\n"
    assert len(conversations(database)) == 3
    nothing = chatapp("sessions", "undo")
    assert (nothing.returncode, nothing.stderr) == (
        1,
        "Error: nothing to restore: no conversations were deleted in the last month\n",
    )
    assert chatapp("sessions", "rm", "1", "9").returncode == 1
    assert len(conversations(database)) == 3
    assert "give their numbers, or --all" in chatapp("sessions", "rm").stderr
    chatapp("sessions", "rm", "1")
    with History(database) as history:
        history.keep_draft(history.create().id, "not said yet")
    assert chatapp("sessions", "rm", "--all", "--now").stdout.startswith("4 conversations deleted for good")
    assert chatapp("sessions", "undo").returncode == 1


def test_a_conversation_is_renamed(chatapp: Run, database: Path) -> None:
    greet(database, "one")
    assert chatapp("sessions", "rename", "1", "Another title").returncode == 0
    assert conversations(database)[0].title == "Another title"


def test_what_is_pinned_is_listed_first(chatapp: Run, database: Path) -> None:
    greet(database, "one", "two")
    assert chatapp("sessions", "pin", "1").returncode == 0
    assert [one.title for one in conversations(database)] == ["one", "two"]
    assert chatapp("sessions", "unpin", "1").returncode == 0
    assert [one.title for one in conversations(database)] == ["two", "one"]
    assert "there is no conversation 7" in chatapp("sessions", "pin", "7").stderr


def test_what_is_exported_can_be_imported(chatapp: Run, database: Path, tmp_path: Path) -> None:
    greet(database, "one", "two <b>")
    file = tmp_path / "all.json"
    done = chatapp("sessions", "export", "--all", "--output", str(file))
    assert (done.stdout, done.stderr) == ("", f"2 conversations in {file}\n")
    assert stat.S_IMODE(file.stat().st_mode) & 0o400
    assert chatapp("sessions", "import", str(file)).stdout == f"{file}: 2 conversations imported\n"
    assert sorted(one.title for one in conversations(database)) == ["one", "one", "two <b>", "two <b>"]
    assert chatapp("sessions", "export", "2", "1").stdout.count("\n## You\n") == 2
    page = chatapp("sessions", "export", "2", "1", "--format", "html").stdout
    assert "<title>Conversations</title>" in page and page.count("<h1>") == 2 and "two &lt;b&gt;" in page
    assert "give their numbers, or --all" in chatapp("sessions", "export").stderr
    assert chatapp("sessions", "export", "1", "--output", str(tmp_path / "odd.txt")).returncode == 2
    again = chatapp("sessions", "import", "-", stdin=file.read_text())
    assert again.stdout == "standard input: 2 conversations imported\n"


def test_what_an_import_leaves_out_is_told(chatapp: Run, database: Path, tmp_path: Path) -> None:
    def message(kind: str) -> dict[str, object]:
        content = {"content_type": kind, "parts": ["hello"]}
        return {"parent": None, "message": {"author": {"role": "user"}, "content": content}}

    file = tmp_path / "conversations.json"
    file.write_text(
        json.dumps([{"title": "ok", "mapping": {"a": message("text"), "b": message("thoughts")}}, {"title": "odd"}])
    )
    done = chatapp("sessions", "import", str(file))
    assert (done.returncode, done.stdout) == (1, f"{file}: 1 conversation imported\n")
    assert done.stderr.splitlines() == [
        f"{file}: left out, because it is not text: 1 thoughts",
        f"Error: not imported: conversation 2 of {file} ('odd') has no 'mapping'",
    ]
    assert "is an archive; unpack it" in chatapp("sessions", "import", "export.zip").stderr
    assert "cannot read nowhere.json" in chatapp("sessions", "import", "nowhere.json").stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sessions"], "no ACTION given; choose from ls, list, search"),
        (["sessions", "lss"], "unknown value 'lss'; did you mean ls"),
        (["sessions", "show", "first"], "'first' is not a whole number of 1 or more"),
        (["sessions", "ls", "--limt", "1"], "unknown option --limt"),
        (["sessions", "ls", "extra"], "unexpected argument 'extra'"),
        (["run", "-c", "--session", "1"], "not allowed with argument"),
    ],
)
def test_wrong_usage_is_told_in_one_line(chatapp: Run, arguments: list[str], says: str) -> None:
    done = chatapp(*arguments)
    assert done.returncode == 2
    assert says in done.stderr and done.stderr.count("\n") == 1
