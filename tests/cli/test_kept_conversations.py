"""What `chatapp run` keeps, goes on with and saves, also where it is stopped, killed or the disk is full."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from backends import BackendError
from chatapp.conversation import Dialogue, Setup
from chatapp.generation import Delta, Message, Options
from chatapp.generation.engine import Engine
from chatapp.generation.partial_reply import NEW, PartialReply
from chatapp.history import History
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from chatapp.settings import settings
from model_store import Store
from support.checkpoints import ENDLESS, ROOT, MakeCheckpoint, Run
from support.kept_conversations import conversations, greet, said
from support.patience import until


@pytest.fixture
def tiny(checkpoint: MakeCheckpoint) -> str:
    """A model with a chat template."""
    return str(checkpoint(chats=True))


@pytest.fixture
def database(home: Path) -> Path:
    return home / "history.db"


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


def test_a_conversation_that_is_gone_on_with_is_not_read_again_and_a_deleted_one_leaves_nothing(
    chatapp: Run, tiny: str, home: Path, database: Path
) -> None:
    long = "What does the quick brown fox do when it jumps over the lazy dog? " * 4
    first = chatapp("run", tiny, long, "--max-tokens", "5")
    assert first.returncode == 0, first.stderr
    [state] = (home / "states").iterdir()
    private = chatapp("run", "-c", "a secret", "--max-tokens", "2", "--no-history")
    assert private.returncode == 0, private.stderr
    second = chatapp("run", "-c", "and then?", "--max-tokens", "4")
    assert second.returncode == 0, second.stderr
    with History(database) as history:
        usage = history.messages(1)[-1].usage
        assert usage["prompt_tokens"] - 128 < usage["cached_tokens"] >= 64
        history.delete(1)
    assert not state.exists() and not list((home / "states").iterdir())


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
    assert [(one.title[:3], one.kind) for one in conversations(database)] == [
        ("two", "completion"),
        ("one", "completion"),
    ]
    refused = chatapp("run", "--session", "1", "more")
    assert refused.returncode == 1
    assert "Error: 1 is a base model's continuation" in refused.stderr
    assert "no conversation to continue" in chatapp("run", "-c", "more").stderr


def talk(model: str | None, monkeypatch: pytest.MonkeyPatch, lines: list[str], *options: str) -> None:
    """The loop, in this process, with somebody who types these lines and leaves."""
    from chatapp.cli import main, repl

    typed = iter(lines)

    def ask(mark: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    with monkeypatch.context() as patched:
        patched.setattr(repl, "ask", ask)
        patched.setattr(sys.stdin, "isatty", lambda: True)
        assert main.main(["run", *([model] if model else []), *options, "--max-tokens", "2"]) == 0


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
    until(lambda: len(said(database)[-1][1]) > 500, "a batch to be saved")
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
    engine = open_engine(Store(settings.home() / "models"), tiny, PlacementOptions("onnx"))
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
        assert warnings[1:] == ["this conversation is being saved again, with everything written meanwhile"]


class Breaking(Engine):
    """An engine whose device is lost in mid-answer."""

    def chat(
        self, messages: Sequence[Message], options: Options, begun: Sequence[int] = (), partial: PartialReply = NEW
    ) -> Generator[Delta, None, None]:
        deltas = super().chat(messages, options, begun, partial)

        def broken() -> Generator[Delta, None, None]:
            for place, delta in enumerate(deltas):
                if place == 3:
                    deltas.close()
                    raise BackendError("the device is gone")
                yield delta

        return broken()


def test_when_the_model_fails_its_partial_answer_stays(tiny: str, database: Path) -> None:
    whole = open_engine(Store(settings.home() / "models"), tiny, PlacementOptions("onnx"))
    breaking = Breaking(whole.session, whole.tokenizer, whole.chat_template, hold=0.0)
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


def test_a_question_that_the_template_cannot_take_is_not_kept(
    chatapp: Run, checkpoint: MakeCheckpoint, database: Path
) -> None:
    folder = checkpoint()
    (folder / "chat_template.jinja").write_text("{{ 1 / 0 }}")
    assert "chat template" in chatapp("run", str(folder), "hello").stderr
    assert not conversations(database)


def test_continuing_with_a_base_model_is_refused(chatapp: Run, checkpoint: MakeCheckpoint, database: Path) -> None:
    greet(database, "hello")
    done = chatapp("run", "-c", str(checkpoint()), "more")
    assert done.returncode == 1
    assert "has no chat template and cannot continue a conversation" in done.stderr
