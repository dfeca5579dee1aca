"""`chatapp sessions`, and what `chatapp run` keeps, goes on with and leaves behind when it is killed."""

import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from conftest import ENDLESS, ROOT, MakeCheckpoint, Run

from backends import BackendError
from chatapp import settings
from chatapp.dialogue import Dialogue, Setup
from chatapp.generation import Delta, Engine, Message, Options
from chatapp.history import Conversation, History
from chatapp.selection import Wish, open_engine
from model_store import Store


@pytest.fixture
def tiny(checkpoint: MakeCheckpoint) -> str:
    """A model with a chat template."""
    return str(checkpoint(chats=True))


@pytest.fixture
def database(home: Path) -> Path:
    return home / "history.db"


def conversations(database: Path) -> list[Conversation]:
    with History(database) as history:
        return list(history.list())


def said(database: Path, conversation: int = 1) -> list[tuple[str, str]]:
    with History(database) as history:
        return [(message.role, message.text) for message in history.messages(conversation)]


def greet(database: Path, *texts: str) -> None:
    """A conversation for each text."""
    with History(database) as history:
        for text in texts:
            history.add(history.create(model="tiny").id, "user", text, parent=None)


# What run keeps


def test_an_answer_is_kept_and_can_be_gone_on_with(chatapp: Run, tiny: str, database: Path) -> None:
    first = chatapp("run", tiny, "hello", "--max-tokens", "5", "--seed", "1", "--raw")
    assert first.returncode == 0, first.stderr
    second = chatapp("run", "-c", "and then?", "--max-tokens", "4", "--raw")
    assert second.returncode == 0, second.stderr
    with History(database) as history:
        [conversation] = history.list()
        assert (conversation.title, conversation.model, conversation.messages) == ("hello", "tiny", 4)
        asked, answer, again, last = history.messages(conversation.id)
        assert (asked.text, again.text) == ("hello", "and then?")
        assert (first.stdout, second.stdout) == (answer.text, last.text)
        assert (answer.finished, answer.finish_reason, answer.model) == (True, "length", "tiny")
        assert (answer.options["max_tokens"], answer.options["seed"], answer.usage["completion_tokens"]) == (5, 1, 5)
        assert len(history.latencies(answer.id)) == 4
        assert last.usage["prompt_tokens"] > answer.usage["prompt_tokens"] + 5


def test_one_conversation_of_several_can_be_chosen_and_another_model_too(
    chatapp: Run, tiny: str, checkpoint: MakeCheckpoint, database: Path
) -> None:
    greet(database, "one", "two")
    other = str(checkpoint("other", chats=True))
    done = chatapp("run", "--session", "1", other, "more", "--max-tokens", "2")
    assert done.returncode == 0, done.stderr
    assert [role for role, _ in said(database)] == ["user", "assistant"]  # a question without an answer is left aside
    assert said(database)[0] == ("user", "more")
    with History(database) as history:
        assert [one.model for one in history.messages(1)] == ["", "other"]
        assert len(history.tree(1)) == 3


def test_every_completion_is_kept_as_a_version(chatapp: Run, tiny: str, database: Path) -> None:
    done = chatapp("run", tiny, "hello", "-n", "3", "--max-tokens", "4", "--json")
    printed = [json.loads(line)["text"] for line in done.stdout.splitlines()]
    with History(database) as history:
        assert [one.text for one in history.tree(1)[1:]] == printed
        assert history.messages(1)[-1].text == printed[0]


@pytest.mark.parametrize("how", ["option", "setting", "base model"])
def test_nothing_is_kept_where_that_is_not_wanted(
    chatapp: Run, checkpoint: MakeCheckpoint, home: Path, database: Path, how: str
) -> None:
    model = str(checkpoint(chats=how != "base model"))
    if how == "setting":
        home.mkdir()
        (home / "settings.toml").write_text("history = false\n")
    done = chatapp("run", model, "hello", "--max-tokens", "2", *["--no-history"] * (how == "option"))
    assert done.returncode == 0, done.stderr
    assert not database.exists()


def test_the_loop_keeps_what_is_said_and_begins_anew_when_told(
    chatapp: Run, tiny: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(tiny, monkeypatch, ["one", "two", "/clear", "three", "/bye"])
    assert [(one.title, one.messages) for one in conversations(database)] == [("three", 2), ("one", 4)]
    talk(None, monkeypatch, ["four"], "--session", "1")
    assert [text for role, text in said(database) if role == "user"] == ["one", "two", "four"]


def test_each_text_that_a_base_model_continues_in_the_loop_is_a_text_of_its_own(
    chatapp: Run, checkpoint: MakeCheckpoint, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(str(checkpoint()), monkeypatch, ["one", "two"])
    assert [(one.title, one.kind) for one in conversations(database)] == [("two", "completion"), ("one", "completion")]
    refused = chatapp("run", "--session", "1", "more")
    assert refused.returncode == 1
    assert "Error: 1 is a text that a base model continued" in refused.stderr
    assert "no conversation to go on with" in chatapp("run", "-c", "more").stderr


def talk(model: str | None, monkeypatch: pytest.MonkeyPatch, lines: list[str], *options: str) -> None:
    """The loop, in this process, with somebody who types these lines and leaves."""
    from chatapp import cli, plain

    typed = iter(lines)

    def ask(mark: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    with monkeypatch.context() as patched:
        patched.setattr(plain, "ask", ask)
        patched.setattr(sys.stdin, "isatty", lambda: True)
        assert cli.main(["run", *([model] if model else []), *options, "--max-tokens", "2"]) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is another thing there")
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_an_answer_that_was_stopped_or_killed_is_there_as_far_as_it_came(
    checkpoint: MakeCheckpoint, chatapp: Run, database: Path, way: signal.Signals
) -> None:
    model = str(checkpoint(chats=True, max_position_embeddings=32768))
    process = subprocess.Popen(
        [sys.executable, "-m", "chatapp", "run", model, "hello", *ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdout
    printed = b""
    while len(printed) < 3000:
        printed += os.read(process.stdout.fileno(), 1000)
    time.sleep(0.5)  # twice the pause between two batches
    process.send_signal(way)
    process.communicate()
    with History(database) as history:
        asked, partial = history.messages(1)
        stopped = way == signal.SIGINT
        assert (asked.text, partial.finished) == ("hello", stopped)
        assert partial.finish_reason == ("cancelled" if stopped else None)
        assert len(partial.text) > 500
        assert bool(partial.usage) == stopped
    shown = chatapp("sessions", "show")
    assert ("cancelled" if stopped else "unfinished") in shown.stdout
    assert chatapp("run", "-c", "go on", "--max-tokens", "2").returncode == 0
    assert [role for role, _ in said(database)] == ["user", "assistant"] * 2


@pytest.mark.parametrize("what", ["newer", "damaged"])
def test_what_cannot_be_kept_is_answered_all_the_same(chatapp: Run, tiny: str, database: Path, what: str) -> None:
    if what == "newer":
        with History(database) as history:
            history.connection.execute("PRAGMA user_version = 99")
    else:
        database.parent.mkdir()
        database.write_bytes(b"x" * 5000)
    before = database.read_bytes()
    done = chatapp("run", tiny, "hello", "--max-tokens", "2")
    assert done.returncode == 0
    assert re.fullmatch("Warning: this conversation is not being saved: .*(newer|damaged).*\n", done.stderr)
    refused = chatapp("sessions", "ls")
    assert refused.returncode == 1 and refused.stderr.startswith("Error: ")
    assert database.read_bytes() == before


def test_a_full_disk_ends_no_conversation_and_what_was_said_is_saved_when_there_is_room(
    checkpoint: MakeCheckpoint, database: Path
) -> None:
    tiny = str(checkpoint(chats=True, max_position_embeddings=32768))
    engine = open_engine(Store(settings.models()), tiny, Wish("onnx"))
    warnings: list[str] = []
    with History(database) as history:
        setup = Setup(tiny, {"max_tokens": 3})
        dialogue = Dialogue(history, kind="chat", setup=setup, warn=warnings.append)
        list(dialogue.ask(engine, "one").deltas)
        pages = history.connection.execute("PRAGMA page_count").fetchone()[0]
        history.connection.execute(f"PRAGMA max_page_count = {pages}")
        list(dialogue.ask(engine, "two " * 2000).deltas)
        list(dialogue.ask(engine, "three " * 1000).deltas)
        assert len(dialogue.branch()) == 6
        assert len(warnings) == 1 and "the disk is full" in warnings[0]
        assert len(history.messages(1)) == 2
        history.connection.execute("PRAGMA max_page_count = 1000000")
        list(dialogue.ask(engine, "four").deltas)
        assert list(history.messages(1)) == dialogue.branch() and len(dialogue.branch()) == 8
        assert warnings[1:] == ["this conversation is being saved again, with all that was said meanwhile"]


class Breaking(Engine):
    """An engine whose device is lost in mid-answer."""

    def chat(
        self, messages: Sequence[Message], options: Options, begun: Sequence[int] = ()
    ) -> Generator[Delta, None, None]:
        deltas = super().chat(messages, options, begun)

        def broken() -> Generator[Delta, None, None]:
            for place, delta in enumerate(deltas):
                if place == 3:
                    deltas.close()
                    raise BackendError("the device is gone")
                yield delta

        return broken()


def test_when_the_model_fails_its_partial_answer_stays(tiny: str, database: Path) -> None:
    whole = open_engine(Store(settings.models()), tiny, Wish("onnx"))
    breaking = Breaking(whole.session, whole.tokenizer, whole.chat_template)
    with History(database) as history:
        setup = Setup(tiny, {"max_tokens": 9, "logit_bias": {0: -math.inf}})
        dialogue = Dialogue(history, kind="chat", setup=setup, warn=print)
        with pytest.raises(BackendError, match="gone"):
            list(dialogue.ask(breaking, "one").deltas)
        partial = history.messages(1)[-1]
        assert partial.text and not partial.finished
        assert partial.options["logit_bias"] == {"0": "-inf"}
        list(dialogue.ask(whole, "two").deltas)
        assert list(history.messages(1)) == dialogue.branch()
        assert [message.text for message in dialogue.branch()[:3]] == ["one", partial.text, "two"]


def test_what_the_model_refuses_is_not_kept(chatapp: Run, tiny: str, database: Path) -> None:
    assert chatapp("run", tiny, "word, " * 9000).returncode == 1
    assert not conversations(database)


def test_continuing_with_a_base_model_is_refused(chatapp: Run, checkpoint: MakeCheckpoint, database: Path) -> None:
    greet(database, "hello")
    done = chatapp("run", "-c", str(checkpoint()), "more")
    assert done.returncode == 1
    assert "has no chat template: it cannot go on with a conversation" in done.stderr


# Looking after them


def test_conversations_are_listed_and_shown(chatapp: Run, database: Path) -> None:
    assert "No conversations yet" in chatapp("sessions", "ls").stderr
    assert "no conversation yet" in chatapp("sessions", "show").stderr
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
    assert missing.stderr == "Error: there is no conversation 7; `chatapp sessions ls` lists them\n"


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
    assert chatapp("sessions", "rm", "1", "3").stdout.startswith("2 conversations deleted; `chatapp sessions undo`")
    assert [one.title for one in conversations(database)] == ["two"]
    assert chatapp("sessions", "undo").stdout == "1  one\n3  three\n"
    assert len(conversations(database)) == 3
    nothing = chatapp("sessions", "undo")
    assert (nothing.returncode, nothing.stderr) == (1, "Error: nothing was deleted in the last month\n")
    assert chatapp("sessions", "rm", "1", "9").returncode == 1
    assert len(conversations(database)) == 3
    assert "give their numbers, or --all" in chatapp("sessions", "rm").stderr
    chatapp("sessions", "rm", "1")
    assert chatapp("sessions", "rm", "--all", "--now").stdout.startswith("3 conversations deleted for good")
    assert chatapp("sessions", "undo").returncode == 1


def test_a_conversation_is_renamed(chatapp: Run, database: Path) -> None:
    greet(database, "one")
    assert chatapp("sessions", "rename", "1", "Another title").returncode == 0
    assert conversations(database)[0].title == "Another title"


def test_what_is_exported_can_be_imported(chatapp: Run, database: Path, tmp_path: Path) -> None:
    greet(database, "one", "two <b>")
    file = tmp_path / "all.json"
    done = chatapp("sessions", "export", "--all", "--format", "json", "--output", str(file))
    assert (done.stdout, done.stderr) == ("", f"2 conversations in {file}\n")
    assert stat.S_IMODE(file.stat().st_mode) & 0o400
    assert chatapp("sessions", "import", str(file)).stdout == f"{file}: 2 conversations imported\n"
    assert sorted(one.title for one in conversations(database)) == ["one", "one", "two <b>", "two <b>"]
    assert chatapp("sessions", "export", "2", "1").stdout.count("\n## You\n") == 2
    page = chatapp("sessions", "export", "2", "1", "--format", "html").stdout
    assert "<title>Conversations</title>" in page and page.count("<h1>") == 2 and "two &lt;b&gt;" in page
    assert "give their numbers, or --all" in chatapp("sessions", "export").stderr
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
        f"{file}: left out, because it is no text between user and model: 1 thoughts",
        f"Error: not imported: conversation 2 of {file} ('odd') has no 'mapping'",
    ]
    assert "is an archive; unpack it" in chatapp("sessions", "import", "export.zip").stderr
    assert "cannot read nowhere.json" in chatapp("sessions", "import", "nowhere.json").stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sessions"], "the following arguments are required: ACTION"),
        (["sessions", "lss"], "invalid choice: 'lss'"),
        (["sessions", "show", "first"], "'first' is not a whole number from 1"),
        (["sessions", "ls", "--limt", "1"], "there is no option --limt"),
        (["sessions", "ls", "extra"], "one argument too many: 'extra'"),
        (["run", "-c", "--session", "1"], "not allowed with argument"),
    ],
)
def test_wrong_usage_is_told_in_one_line(chatapp: Run, arguments: list[str], says: str) -> None:
    done = chatapp(*arguments)
    assert done.returncode == 2
    assert says in done.stderr and done.stderr.count("\n") == 1
