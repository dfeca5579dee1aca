"""The database of conversations: older and newer ones, broken ones, full disks, and several processes at once."""

import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from chatapp.history import History, HistoryError
from chatapp.history.database import MIGRATIONS
from support.checkpoints import ROOT
from support.messages import ask, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


# The database


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_an_older_database_is_brought_up_to_date(path: Path, version: int) -> None:
    old = sqlite3.connect(path)
    for number in range(version):
        for statement in MIGRATIONS[number]:
            old.execute(statement)
    old.execute(f"PRAGMA user_version = {version}")
    old.execute(
        "INSERT INTO conversations (title, kind, model, created, updated, messages) VALUES ('t','chat','',1,1,1)"
    )
    old.execute(
        "INSERT INTO messages (conversation, role, text, created, finished, model, options, usage, latencies) "
        "VALUES (1, 'user', 'an old word', 1, 1, '', '{}', '{}', '[]')"
    )
    old.execute("UPDATE conversations SET leaf = 1")
    old.commit()
    old.close()
    with History(path) as history:
        assert texts(history, 1) == ["an old word"]
        assert [one.message for one in history.search("old word")] == [1]
        assert history.connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with History(path) as history:
        ask(history, "hello")
    before = path.read_bytes()
    more = (*MIGRATIONS, ("CREATE TABLE presets (name TEXT)", "CREATE TABLE nonsense"))
    monkeypatch.setattr("chatapp.history.database.MIGRATIONS", more)
    with pytest.raises(HistoryError, match="incomplete input"):
        History(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    with History(path) as history:
        assert history.list()


def test_a_database_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    with History(path) as history:
        ask(history, "hello")
        history.connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 5}")
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=rf"newer chatapp \(version {len(MIGRATIONS) + 5} .* update chatapp"):
        History(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE messages (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(HistoryError, match="another program's database"):
        History(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(HistoryError, match="damaged or not a database"):
        History(path)
    assert path.read_bytes() == content


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot save conversations in .*check the folder"):
        History(tmp_path / "file" / "history.db")
    with pytest.raises(HistoryError, match="cannot save conversations in"):
        History(tmp_path)


def test_on_a_full_disk_what_was_saved_stays_and_it_goes_on_when_there_is_room(history: History) -> None:
    [asked] = ask(history, "hello")
    pages = history.connection.execute("PRAGMA page_count").fetchone()[0]
    history.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(HistoryError, match="the disk is full.*are safe; free some space"):
        history.add(asked.conversation, "user", "z" * 100_000, parent=None)
    assert texts(history, asked.conversation) == ["hello"]
    history.connection.execute("PRAGMA max_page_count = 1000000")
    history.add(asked.conversation, "user", "z" * 100_000, parent=None)
    assert texts(history, asked.conversation) == ["z" * 100_000]


READ_ONLY = """
import os, sys, urllib.parse  # the last for pathlib, which may not read it later where Python is root's own
from pathlib import Path
from chatapp.history import History, HistoryError
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
with History(Path(sys.argv[1])) as history:
    print([message.text for message in history.messages(1)], len(history.search("hello")))
    try:
        history.add(1, "user", "more", parent=None)
    except HistoryError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no permissions of this kind")
@pytest.mark.parametrize("folder_too", [False, True])
def test_a_read_only_database_can_be_read(folder_too: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "history.db"
        with History(path) as history:
            ask(history, "hello", "good day")
        path.chmod(0o444)
        folder.chmod(0o555 if folder_too else 0o777)
        try:
            command = [sys.executable, "-c", READ_ONLY, str(path)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        finally:
            folder.chmod(0o755)
    lines = done.stdout.splitlines()
    assert lines[:1] == ["['hello', 'good day'] 1"], done.stderr
    assert "are read-only; check the permissions" in lines[1]


# Several at once

WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from chatapp.history import History, database
database.PATIENCE = 100.0  # whoever comes third may wait for long on a busy machine
with History(Path(sys.argv[1])) as history:
    conversation, parent = history.create(model=sys.argv[2]).id, None
    for turn in range(30):
        parent = history.add(conversation, "user", f"{sys.argv[2]} asks {turn}", parent=parent).id
        reply = history.add(conversation, "assistant", "", parent=parent)
        for words in range(5):
            history.change(replace(reply, text="so " * words))
        history.change(replace(reply, text=f"{sys.argv[2]} hears {turn}", finish_reason="stop"))
        parent = reply.id
"""


def test_several_processes_write_at_once_also_into_a_database_that_is_not_there_yet(path: Path) -> None:
    commands = [[sys.executable, "-c", WRITER, str(path), name] for name in ("ann", "bob", "eve")]
    running = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for command in commands]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    with History(path) as history:
        for conversation in history.list():
            who = conversation.model
            expected = [f"{who} {does} {turn}" for turn in range(30) for does in ("asks", "hears")]
            assert texts(history, conversation.id) == expected
        assert len(history.list()) == 3
        assert history.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_conversation_is_read_as_of_one_moment_while_another_process_writes(history: History, path: Path) -> None:
    asked, reply = ask(history, "hello", "good day")
    other = History(path)

    def write(statement: str) -> None:
        if "FROM messages m" in statement:  # the second of two
            ask(other, "more", "and more", conversation=asked.conversation, parent=reply.id)

    history.connection.set_trace_callback(write)
    assert texts(history, asked.conversation) == ["hello", "good day"]
    history.connection.set_trace_callback(None)
    assert texts(history, asked.conversation) == ["hello", "good day", "more", "and more"]
    other.close()


def test_several_threads_share_one_history(history: History) -> None:
    [asked] = ask(history, "hello")
    failures: list[BaseException] = []

    def work(who: int) -> None:
        try:
            for turn in range(30):
                history.add(asked.conversation, "assistant", f"{who} {turn}", parent=asked.id)
                history.search("hello")
                history.list()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(history.messages(asked.conversation)[1].versions) == 120
