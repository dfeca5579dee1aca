"""What a failing disk, another program or a kill cannot take from a dialogue."""

import math
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chatapp.conversation import Dialogue, Setup
from chatapp.history import History
from support.checkpoints import ROOT
from support.dialogues import Begin, chatty, fill_the_disk, heard, make_room, talk, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_a_full_disk_loses_nothing_and_when_there_is_room_everything_is_saved(
    history: History, begin: Begin, told: list[str]
) -> None:
    dialogue, engine = begin(), chatty(context_length=50_000)
    talk(dialogue, engine, "one")
    fill_the_disk(history)
    turn = talk(dialogue, engine, "two " * 5000)[0]
    assert len(told) == 1 and told[0].startswith("this conversation is not being saved: the disk is full")
    local = turn.replies[0].id
    assert local < 0 and dialogue.tokens(local) and dialogue.latencies(local)
    heard(dialogue.again(engine, local, 2))
    talk(dialogue, engine, "three " * 4000)
    dialogue.change(Setup("scripted", {"top_k": 3}))
    assert not dialogue.save()
    assert len(history.messages(1)) == 2 and len(dialogue.branch()) == 6
    make_room(history)
    assert dialogue.save()
    assert told[1:] == ["this conversation is being saved again, with everything written meanwhile"]
    assert list(history.messages(1)) == dialogue.branch()
    assert Setup.of_json(history.get(1).setup) == dialogue.setup
    assert history.tokens(dialogue.message(local).id) == dialogue.tokens(local) != ()
    dialogue.select(local)
    assert history.messages(1)[-1].id == dialogue.branch()[-1].id == dialogue.message(local).id
    assert len(told) == 2


def test_a_disk_that_fills_in_mid_answer_and_has_room_again_gets_the_whole_answer(
    history: History, begin: Begin, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause, always in (("PAUSE", 0.0), ("RETRY", 0.0), ("SHARE", math.inf), ("RETRY_SHARE", math.inf)):
        monkeypatch.setattr(f"chatapp.conversation.saving.{pause}", always)
    dialogue, engine = begin(), chatty("word " * 3000, context_length=50_000)
    turn = dialogue.ask(engine, "go")
    fill_the_disk(history)
    for _ in range(2900):
        next(turn.deltas)
    assert len(told) == 1
    make_room(history)
    heard(turn)
    assert list(history.messages(1)) == dialogue.branch() and len(told) == 2
    assert dialogue.branch()[-1].text == "word " * 3000


def test_another_program_that_holds_the_database_is_outlasted(
    path: Path, begin: Begin, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.history.database.PATIENCE", 0.05)
    kept = History(path)
    dialogue = Dialogue(kept, kind="chat", setup=Setup(), warn=told.append)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    talk(dialogue, chatty(), "one", "two")
    assert len(told) == 1 and "another program has locked the conversations" in told[0]
    other.execute("COMMIT")
    other.close()
    assert dialogue.save() and dialogue.conversation
    with History(path) as history:
        assert list(history.messages(dialogue.conversation)) == dialogue.branch()
    kept.close()


def test_what_was_taken_back_while_the_disk_was_full_is_gone_afterwards(history: History, begin: Begin) -> None:
    dialogue = begin()
    talk(dialogue, chatty(), "one")
    turn = dialogue.ask(chatty(), "two")
    fill_the_disk(history)
    turn.deltas.close()
    dialogue.ask(chatty(), "three " * 5000).deltas.close()
    make_room(history)
    assert dialogue.save()
    assert list(history.tree(1)) == dialogue.branch() and len(dialogue.branch()) == 2


def test_without_a_history_a_dialogue_is_in_memory_only(tmp_path: Path) -> None:
    dialogue = Dialogue(None, kind="chat", setup=Setup(), warn=print, logprobs=5)
    turn = talk(dialogue, chatty(), "hello")[0]
    heard(dialogue.again(chatty("Hi"), turn.replies[0].id))
    assert texts(dialogue) == ["hello", "Hi"] and dialogue.conversation is None
    assert len(dialogue.tokens(turn.replies[0].id)) == 4 and len(dialogue.latencies(turn.replies[0].id)) == 3
    assert not list(tmp_path.iterdir())


def test_two_dialogues_share_a_database_and_each_other_s_branches(history: History, begin: Begin) -> None:
    talk(begin(), chatty(), "hello")
    one, two = begin(1), begin(1)
    threads = [
        threading.Thread(target=talk, args=(dialogue, chatty(), *[f"{name} {turn}" for turn in range(10)]))
        for name, dialogue in (("one", one), ("two", two))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(history.tree(1)) == 42
    for name, dialogue in (("one", one), ("two", two)):
        asked = [message.text for message in dialogue.branch() if message.role == "user"]
        assert asked == ["hello", *(f"{name} {turn}" for turn in range(10))]
    assert texts(begin(1)) in (texts(one), texts(two))


KILLED = """
import sys
sys.path.insert(0, "tests")
from pathlib import Path
from support.scripted_engine import ScriptedEngine
from support.scripted_session import CHATML, ScriptedSession, hashed, write_tokenizer
from chatapp.conversation import Dialogue, Setup
from chatapp.history import History
dialogue = Dialogue(History(Path(sys.argv[1])), kind="chat", setup=Setup("tiny"), warn=print)
engine = ScriptedEngine("word " * 100_000, delay=0.0005, context_length=1_000_000, can_chat=True)
list(dialogue.ask(engine, "hello").deltas)
"""


def test_after_a_kill_the_partial_answer_is_there_and_the_conversation_goes_on(path: Path, history: History) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], cwd=ROOT)
    try:
        seen = ""
        while len(seen) < 500:
            assert process.poll() is None
            time.sleep(0.05)
            seen = history.messages(1)[-1].text if history.list() else ""
    finally:
        process.kill()
        process.wait()
    partial = history.messages(1)[-1]
    assert partial.text.startswith(seen) and not partial.finished
    assert history.search("word") and history.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    dialogue = Dialogue(history, history.get(1), kind="chat", setup=Setup(), warn=print)
    heard(dialogue.ask(chatty(context_length=1_000_000), "go on"))
    assert texts(dialogue) == ["hello", partial.text, "go on", "Good day to you"]
