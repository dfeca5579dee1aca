"""chatapp.dialogue: the tree of a conversation, what fits the context, and what a failing disk cannot take away."""

import math
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, MakeCheckpoint
from scripted_engine import ScriptedEngine
from scripted_session import CHATML, ScriptedSession, hashed, write_tokenizer

from chatapp import settings
from chatapp.dialogue import Dialogue, Setup, Turn
from chatapp.dialogue.fitting import SUMMARY
from chatapp.generation import Engine, GenerationError, Message, OptionError, Options, PromptTooLong
from chatapp.generation.chat_template import ChatTemplate
from chatapp.generation.tokenizer import Tokenizer
from chatapp.history import Conversation, ConversationNotFound, History, Kind
from chatapp.selection import Wish, open_engine
from model_store import Store

Begin = Callable[..., Dialogue]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def begin(history: History, told: list[str]) -> Begin:
    """Begin a dialogue in the history, or open one of it."""

    def make(conversation: int | None = None, *, kind: Kind = "chat", **setup: Any) -> Dialogue:
        opened: Conversation | None = history.get(conversation) if conversation else None
        wanted = Setup("scripted", **setup)
        return Dialogue(history, opened, kind=kind, setup=wanted, warn=told.append, logprobs=5)

    return make


def chatty(text: str = "Good day to you", **facts: Any) -> ScriptedEngine:
    return ScriptedEngine(text, can_chat=True, **facts)


def heard(turn: Turn) -> list[str]:
    """What the replies say that a turn gives, each with what it began with."""
    texts = [reply.text for reply in turn.replies]
    for delta in turn.deltas:
        texts[delta.index] += delta.text
    return texts


def texts(dialogue: Dialogue) -> list[str]:
    return [message.text for message in dialogue.branch()]


def fill_the_disk(history: History) -> None:
    pages = history.connection.execute("PRAGMA page_count").fetchone()[0]
    history.connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(history: History) -> None:
    history.connection.execute("PRAGMA max_page_count = 1000000")


# The tree


def test_what_is_asked_and_answered_is_shown_and_saved_with_all_that_is_known_of_it(
    history: History, begin: Begin
) -> None:
    dialogue, engine = begin(options={"temperature": 0.5}), chatty()
    turn = dialogue.ask(engine, "hello")
    assert turn.question and turn.question.text == "hello"
    assert [message.text for message in history.messages(1)] == ["hello", ""]
    assert heard(turn) == ["Good day to you"]
    assert list(history.messages(1)) == dialogue.branch()
    reply = dialogue.branch()[-1]
    assert (reply.finished, reply.finish_reason, reply.model, reply.usage["completion_tokens"]) == (
        True, "stop", "scripted", 4,
    )  # fmt: skip
    assert reply.options["temperature"] == 0.5
    assert len(history.latencies(reply.id)) == 3 and dialogue.latencies(reply.id) == history.latencies(reply.id)
    tokens = dialogue.tokens(reply.id)
    assert [token.text for token in tokens] == ["Good", " day", " to", " you"]
    assert [len(token.alternatives) for token in tokens] == [5] * 4
    assert tokens == history.tokens(reply.id)
    assert history.get(1).setup == dialogue.setup.as_json()


def test_a_conversation_that_is_opened_again_goes_on(begin: Begin) -> None:
    heard(begin().ask(chatty(), "hello"))
    dialogue, engine = begin(1), chatty("Fine")
    heard(dialogue.ask(engine, "and you?"))
    assert engine.asked == ["hello\nGood day to you\nand you?"]
    assert texts(begin(1)) == ["hello", "Good day to you", "and you?", "Fine"]


def test_an_edited_question_begins_a_branch_and_both_can_be_shown(history: History, begin: Begin) -> None:
    dialogue = begin()
    talk(dialogue, chatty("One"), "1")
    first = dialogue.branch()[0]
    heard(dialogue.ask(chatty("Two"), "2"))
    edited = dialogue.edit(chatty("Three"), first.id, "3")
    heard(edited)
    assert texts(dialogue) == ["3", "Three"]
    assert edited.question and edited.question.versions == (first.id, edited.question.id)
    dialogue.select(first.id)
    assert texts(dialogue) == ["1", "One", "2", "Two"] == [one.text for one in history.messages(1)]
    dialogue.select(edited.question.id)
    assert texts(begin(1)) == ["3", "Three"]
    with pytest.raises(ConversationNotFound, match="no message 99"):
        dialogue.select(99)


def test_several_answers_come_from_one_batch_and_the_first_is_shown(history: History, begin: Begin) -> None:
    dialogue, engine = begin(), chatty(texts=["One two", "Three", "Four five six"])
    turn = dialogue.ask(engine, "count", 3)
    assert heard(turn) == ["One two", "Three", "Four five six"]
    assert engine.options[0].n == 3 and len(engine.asked) == 1
    assert texts(dialogue) == ["count", "One two"]
    assert dialogue.branch()[-1].versions == tuple(reply.id for reply in turn.replies)
    assert [len(history.latencies(reply.id)) for reply in turn.replies] == [1, 1, 2]
    dialogue.select(turn.replies[2].id)
    assert texts(begin(1)) == ["count", "Four five six"]


def test_another_answer_stands_beside_the_first_and_a_fixed_seed_counts_on(begin: Begin) -> None:
    dialogue, engine = begin(options={"seed": 2**64 - 1}), chatty()
    turn = talk(dialogue, engine, "hello")[0]
    heard(dialogue.again(engine, turn.replies[0].id, 2))
    heard(dialogue.again(engine, dialogue.branch()[0].id))
    assert [options.seed for options in engine.options] == [2**64 - 1, 0, 2]
    assert len(dialogue.branch()[-1].versions) == 4
    assert set(engine.asked) == {"hello"}


def test_a_reply_goes_on_from_the_tokens_that_were_chosen(begin: Begin) -> None:
    dialogue, engine = begin(), chatty()
    heard(dialogue.ask(engine, "hello"))
    reply = dialogue.branch()[-1]
    tokens = dialogue.tokens(reply.id)
    turn = dialogue.go_on(engine, reply.id, tokens[:2])
    assert turn.question is None and turn.replies[0].text == "Good day"
    assert heard(turn) == ["Good day to you"]
    assert engine.begun[-1] == (tokens[0].id, tokens[1].id)
    version = dialogue.branch()[-1]
    assert (version.text, version.versions) == ("Good day to you", (reply.id, version.id))
    assert [token.text for token in dialogue.tokens(version.id)] == ["Good", " day", " to", " you"]
    dialogue.change(Setup("another"))
    with pytest.raises(GenerationError, match="scripted wrote this answer: its tokens mean nothing to another"):
        dialogue.go_on(engine, reply.id, tokens[:2])


def test_an_answer_that_is_stopped_keeps_its_text(history: History, begin: Begin) -> None:
    dialogue, engine = begin(), chatty()
    turn = dialogue.ask(engine, "hello")
    next(turn.deltas)
    next(turn.deltas)
    turn.deltas.close()
    stopped = history.messages(1)[-1]
    assert (stopped.text, stopped.finish_reason, stopped.finished) == ("Good day", "cancelled", True)
    assert stopped.usage["completion_tokens"] == 2
    assert len(dialogue.tokens(stopped.id)) == 2
    assert not turn.withdrawn and engine.closed == 1


def test_a_reply_can_be_read_while_it_grows(history: History, begin: Begin) -> None:
    dialogue = begin()
    turn, shown = dialogue.ask(chatty(), "hello"), ""
    for delta in turn.deltas:
        shown += delta.text
        assert texts(dialogue) == ["hello", shown]
        assert dialogue.message(turn.replies[0].id).text == shown
    assert texts(begin(1)) == ["hello", "Good day to you"]


def test_a_turn_that_nobody_draws_does_no_harm_when_it_is_forgotten(history: History, begin: Begin) -> None:
    dialogue = begin()
    turn = dialogue.ask(chatty(), "hello")
    assert turn.question
    heard(dialogue.again(chatty("Hi"), turn.question.id))
    turn.deltas.close()
    assert turn.withdrawn and texts(dialogue) == ["hello", "Hi"]
    assert list(history.tree(1)) == dialogue.branch()


@pytest.mark.parametrize("way", ["closed at once", "forgotten", "refused", "failed"])
def test_a_turn_that_gave_nothing_is_taken_back(history: History, begin: Begin, way: str) -> None:
    dialogue = begin()
    heard(dialogue.ask(chatty(), "hello"))
    before = list(history.tree(1))
    engine = chatty(context_length=3 if way == "refused" else 1024, fail_after=0 if way == "failed" else None)
    turn = dialogue.ask(engine, "more", 2)
    if way == "closed at once":
        turn.deltas.close()
    elif way == "forgotten":
        del turn.deltas
    else:
        with pytest.raises(PromptTooLong if way == "refused" else RuntimeError):
            next(turn.deltas)
    assert turn.withdrawn
    assert list(history.tree(1)) == before == dialogue.branch() == list(history.messages(1))


def test_a_first_question_that_is_refused_leaves_no_conversation_to_be_seen(history: History, begin: Begin) -> None:
    dialogue = begin()
    with pytest.raises(GenerationError, match="no chat template|context|holds"):
        heard(dialogue.ask(chatty(context_length=0), "hello"))
    assert not history.list() and not dialogue.branch()
    heard(dialogue.ask(chatty(), "good day"))
    assert [one.title for one in history.list()] == ["good day"]


def test_an_answer_that_the_model_broke_off_stays_unfinished(history: History, begin: Begin) -> None:
    dialogue = begin()
    with pytest.raises(RuntimeError):
        heard(dialogue.ask(chatty(fail_after=2), "hello"))
    broken = history.messages(1)[-1]
    assert (broken.text, broken.finished, broken.finish_reason) == ("Good day", False, None)
    heard(dialogue.ask(chatty(), "go on"))
    assert texts(dialogue) == ["hello", "Good day", "go on", "Good day to you"]


def test_a_question_that_got_no_answer_is_left_aside(history: History, begin: Begin) -> None:
    history.add(history.create().id, "user", "hello?", parent=None)
    dialogue, engine = begin(1), chatty()
    heard(dialogue.ask(engine, "anybody?"))
    assert engine.asked == ["anybody?"]
    assert dialogue.branch()[0].versions == (1, 2)


def test_options_that_cannot_be_are_refused_before_anything_is_said(history: History, begin: Begin) -> None:
    with pytest.raises(OptionError, match="top_p"):
        begin(options={"top_p": 2}).ask(chatty(), "hello")
    assert not history.list()


# Setup


def test_a_setup_comes_back_from_json_and_what_cannot_be_is_left_out() -> None:
    options: dict[str, Any] = {"temperature": 0.5, "stop": ("a", "b"), "logit_bias": {3: -math.inf, 4: 1.5}, "seed": 7}
    setup = Setup("model", options, "Be brief.", "slide")
    assert Setup.of_json(setup.as_json()) == setup
    wild = {
        "model": 3,
        "options": {"top_p": 9, "stop": 3, "logit_bias": [1], "nonsense": 1, "top_k": 5},
        "system": None,
    }
    assert Setup.of_json({**wild, "when_full": "explode"}) == Setup(options={"top_k": 5})
    assert Setup.of_json({"options": []}) == Setup()
    assert setup.taken(Options(top_k=3)) == Options(top_k=3, **options)


def test_a_change_of_the_setup_is_saved_and_counts_from_the_next_answer_on(history: History, begin: Begin) -> None:
    dialogue, engine = begin(), chatty()
    heard(dialogue.ask(engine, "hello"))
    dialogue.change(Setup("scripted", {"max_tokens": 2}, system="Be brief."))
    assert Setup.of_json(history.get(1).setup) == dialogue.setup
    heard(dialogue.ask(engine, "more"))
    assert engine.chats[-1][0] == Message("system", "Be brief.")
    assert (engine.options[-1].max_tokens, dialogue.branch()[-1].finish_reason) == (2, "length")


def test_a_template_without_a_place_for_it_gets_the_system_prompt_with_the_first_question(begin: Begin) -> None:
    dialogue, engine = begin(system="Be brief."), chatty(takes_system=False)
    heard(dialogue.ask(engine, "hello"))
    heard(dialogue.ask(engine, "more"))
    assert engine.chats[-1][0] == Message("user", "Be brief.\n\nhello")
    assert texts(dialogue)[0] == "hello"


def test_a_draft_is_kept_once_there_is_a_conversation(history: History, begin: Begin) -> None:
    dialogue = begin()
    dialogue.keep_draft("half a que")
    heard(dialogue.ask(chatty(), "hello"))
    assert history.draft(1) == "half a que"
    dialogue.keep_draft("")
    assert history.draft(1) == ""


# A text


def test_a_text_is_written_by_two_and_what_changes_becomes_a_branch(history: History, begin: Begin) -> None:
    dialogue, engine = begin(kind="completion"), ScriptedEngine("x): pass")
    heard(dialogue.continue_text(engine, "def f("))
    assert engine.options[0].max_tokens == 128
    dialogue.write("def f(x): pass\n")
    assert [(one.role, one.text) for one in dialogue.branch()] == [
        ("user", "def f("), ("assistant", "x): pass"), ("user", "\n"),
    ]  # fmt: skip
    dialogue.write("def g(")
    assert texts(dialogue) == ["def g("]
    dialogue.write("def f(")
    assert texts(dialogue) == ["def f("]
    assert len(history.tree(1)) == 4
    turn = dialogue.continue_text(engine, "def f(", 2)
    assert turn.question is None and len(heard(turn)) == 2
    assert dialogue.branch()[-1].versions == (2, 5, 6)
    assert list(history.messages(1)) == dialogue.branch()


def test_what_fills_a_gap_stands_between_its_texts_while_it_grows_and_after(history: History, begin: Begin) -> None:
    dialogue, engine = begin(kind="completion"), ScriptedEngine("return 1")
    dialogue.write("def f():\n    \nprint(f())")
    turn = dialogue.fill(engine, "def f():\n    ", "\nprint(f())")
    next(turn.deltas)
    next(turn.deltas)
    assert "".join(texts(dialogue)) == "def f():\n    return\nprint(f())"
    heard(turn)
    assert engine.asked == ["def f():\n    <gap>\nprint(f())"]
    assert [one.role for one in dialogue.branch()] == ["user", "assistant", "user"]
    assert "".join(one.text for one in history.messages(1)) == "def f():\n    return 1\nprint(f())"
    dialogue.write("def f():\n    return 1\nprint(f())\n")
    assert texts(dialogue) == ["def f():\n    ", "return 1", "\nprint(f())\n"]


def test_what_a_user_goes_on_typing_stays_one_message_until_the_model_goes_on(history: History, begin: Begin) -> None:
    dialogue = begin(kind="completion")
    for text in ("one", "one two", "once", "once more"):
        dialogue.write(text)
    assert texts(dialogue) == ["once more"] and list(history.tree(1)) == dialogue.branch()
    heard(dialogue.continue_text(ScriptedEngine(" again"), "once more"))
    dialogue.write("twice")
    assert texts(dialogue) == ["twice"] and len(history.tree(1)) == 3


def test_a_shortened_reply_keeps_who_wrote_it_and_its_tokens(history: History, begin: Begin) -> None:
    dialogue, engine = begin(kind="completion"), ScriptedEngine(" two three")
    heard(dialogue.continue_text(engine, "one"))
    dialogue.write([("user", "one"), ("assistant", " two thr"), ("user", "ough")])
    reopened = begin(1)
    assert [(one.role, one.text) for one in reopened.branch()] == [
        ("user", "one"), ("assistant", " two thr"), ("user", "ough"),
    ]  # fmt: skip
    assert [token.text for token in reopened.tokens(reopened.branch()[1].id)] == [" two"]
    turn = reopened.go_on(engine, 2, reopened.tokens(2)[:1])
    assert turn.replies[0].text == " two" and "".join(heard(turn)) == " two two three"
    assert engine.asked[-1] == "one two"
    assert [token.text for token in reopened.tokens(turn.replies[0].id)] == [" two", " two", " thre", "e"]


def test_a_gap_that_was_not_filled_leaves_the_text_as_it_was(history: History, begin: Begin) -> None:
    dialogue = begin(kind="completion")
    dialogue.write("one three")
    dialogue.fill(ScriptedEngine(), "one", " three").deltas.close()
    assert texts(dialogue) == ["one three"] == [one.text for one in history.tree(1)]


def test_a_text_that_is_too_long_stops_or_loses_its_first_lines(begin: Begin) -> None:
    text = "".join(f"line {number}\n" for number in range(100))
    dialogue, engine = begin(kind="completion", options={"max_tokens": 10}), ScriptedEngine("on", context_length=64)
    with pytest.raises(PromptTooLong):
        heard(dialogue.continue_text(engine, text))
    assert not dialogue.branch()
    dialogue.change(Setup("scripted", {"max_tokens": 10}, when_full="slide"))
    turn = dialogue.continue_text(engine, text)
    heard(turn)
    assert engine.asked == [text[text.index(f"line {turn.left_out}\n") :]]
    assert engine.count_tokens(engine.asked[0]) <= 64 - 10 - 64 // 4
    assert "".join(texts(dialogue)) == text + "on"
    heard(dialogue.continue_text(engine, text + "on\n"))
    assert engine.asked[1] == engine.asked[0] + "on\n"


# A full context

CONTEXT = 100


def talk(dialogue: Dialogue, engine: ScriptedEngine, *questions: str) -> list[Turn]:
    """Ask one question after the other."""
    turns: list[Turn] = []
    for question in questions:
        turns.append(dialogue.ask(engine, question))
        heard(turns[-1])
    return turns


def test_a_full_context_stops_the_conversation_unless_something_else_is_chosen(begin: Begin) -> None:
    dialogue, engine = begin(), chatty("a b c d e", context_length=20)
    with pytest.raises(PromptTooLong):
        talk(dialogue, engine, *["x y z"] * 9)
    assert texts(dialogue)[-1] != "x y z"


def test_when_it_slides_whole_turns_are_left_out_for_a_while_and_the_system_prompt_stays(begin: Begin) -> None:
    dialogue = begin(when_full="slide", system="Be brief.", options={"max_tokens": 20})
    engine = chatty("a b c d e f g h", context_length=CONTEXT)
    turns = talk(dialogue, engine, *[f"q{number} x" for number in range(30)])
    assert turns[5].left_out == 0 < turns[-1].left_out
    firsts = []
    for number, (turn, messages) in enumerate(zip(turns, engine.chats, strict=True)):
        assert messages[0] == Message("system", "Be brief.")
        assert messages[1] == Message("user", f"q{turn.left_out // 2} x")
        assert messages[-1] == Message("user", f"q{number} x")
        assert engine.count_chat(messages) <= CONTEXT - 20
        firsts.append(messages[1].text)
    assert len(set(firsts)) < 10  # the prompts' beginnings stay the same for a while
    heard(dialogue.again(engine, dialogue.branch()[-1].id))
    assert engine.chats[-1] == engine.chats[-2]
    assert len(dialogue.branch()) == 60


def test_a_last_question_that_is_too_long_by_itself_is_refused_when_it_slides(begin: Begin) -> None:
    dialogue, engine = begin(when_full="slide"), chatty("a b", context_length=CONTEXT)
    talk(dialogue, engine, "hello")
    with pytest.raises(PromptTooLong):
        heard(dialogue.ask(engine, "x " * 2 * CONTEXT))
    assert len(dialogue.branch()) == 2


def test_what_no_longer_fits_is_summed_up_once_and_the_summary_grows(history: History, begin: Begin) -> None:
    dialogue = begin(when_full="summarise", system="Be brief.", options={"max_tokens": 30, "temperature": 0.7})
    engine = chatty("a b c d e f g h i j k l", context_length=200)
    summarised: list[int] = []
    while len(summarised) < 2:
        before = len(engine.asked)
        turn = dialogue.ask(engine, f"q{len(dialogue.branch()) // 2}")
        first = next(turn.deltas)
        if turn.summarising:
            assert first.text == "" and not first.tokens
            summarised.append(before)
        heard(turn)
        assert not turn.summarising
        assert len(dialogue.branch()) < 200
    requests = [engine.asked[place] for place in summarised]
    assert requests[0].startswith("Summarise this conversation in at most")
    assert "User: q0\n\nAssistant: a b c d e f g h i j k l" in requests[0]
    assert "What was said before, in brief:\na b c d e f g h i j k l\n\n" in requests[1]
    assert "User: q0\n" not in requests[1]
    assert (engine.options[summarised[0]].temperature, engine.options[summarised[0]].max_tokens) == (0, 25)
    assert engine.chats[-1][0].text == f"Be brief.\n\n{SUMMARY}\na b c d e f g h i j k l"
    kept = [message for message in history.tree(1) if message.summary]
    assert len(kept) == 2
    again = begin(1, when_full="summarise", system="Be brief.", options={"max_tokens": 30})
    count = len(engine.asked)
    heard(again.again(engine, again.branch()[-1].id))
    assert engine.chats[-1] == engine.chats[count - 1] and len(engine.asked) == count + 1


def test_a_summary_can_be_cancelled_and_then_nobody_asked(history: History, begin: Begin) -> None:
    dialogue, engine = begin(when_full="summarise"), chatty("a b c d e f g h i j k l", context_length=200)
    while True:
        turn = dialogue.ask(engine, "more")
        next(turn.deltas)
        if turn.summarising:
            break
        heard(turn)
    said = len(dialogue.branch())
    turn.deltas.close()
    assert turn.withdrawn and not turn.summarising and not engine.busy
    assert len(dialogue.branch()) == said - 2
    assert not any(message.summary for message in history.tree(1))


def test_a_long_message_is_summed_up_without_its_middle(begin: Begin) -> None:
    dialogue, engine = begin(when_full="summarise"), chatty("short", context_length=200)
    talk(dialogue, engine, "begin " + "x " * 130 + "end")
    talk(dialogue, engine, "more " * 60)
    request, rest = [prompt for prompt in engine.asked if prompt.startswith("Summarise")]
    assert "User: begin x" in request and " … " in request and "x end" in request
    assert rest.endswith("in brief:\nshort\n\nAssistant: short")
    assert engine.count_tokens(request) <= 200 - 25


# The disk


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
    assert told[1:] == ["this conversation is being saved again, with all that was said meanwhile"]
    assert list(history.messages(1)) == dialogue.branch()
    assert Setup.of_json(history.get(1).setup) == dialogue.setup
    assert history.tokens(dialogue.message(local).id) == dialogue.tokens(local) != ()
    dialogue.select(local)
    assert history.messages(1)[-1].id == dialogue.branch()[-1].id == dialogue.message(local).id
    assert len(told) == 2


def test_a_disk_that_fills_in_mid_answer_and_has_room_again_gets_the_whole_answer(
    history: History, begin: Begin, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatapp.dialogue.saving.PAUSE", 0.0)
    monkeypatch.setattr("chatapp.dialogue.saving.RETRY", 0.0)
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
    dialogue = Dialogue(History(path), kind="chat", setup=Setup(), warn=told.append)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    talk(dialogue, chatty(), "one", "two")
    assert len(told) == 1 and "another program holds the conversations" in told[0]
    other.execute("COMMIT")
    other.close()
    assert dialogue.save() and dialogue.conversation
    with History(path) as history:
        assert list(history.messages(dialogue.conversation)) == dialogue.branch()


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
from scripted_engine import ScriptedEngine
from scripted_session import CHATML, ScriptedSession, hashed, write_tokenizer
from chatapp.dialogue import Dialogue, Setup
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
    heard(dialogue.ask(chatty(), "go on"))
    assert texts(dialogue) == ["hello", partial.text, "go on", "Good day to you"]


# With a real engine


@pytest.fixture
def tiny(checkpoint: MakeCheckpoint) -> Engine:
    """A tiny random model that chats."""
    return open_engine(Store(settings.models()), str(checkpoint(chats=True)), Wish("onnx"))


def test_going_on_from_its_own_tokens_the_model_says_the_same(tiny: Engine, history: History) -> None:
    setup = Setup("tiny", {"temperature": 0, "max_tokens": 24, "repetition_penalty": 1.3, "presence_penalty": 0.5})
    dialogue = Dialogue(history, kind="chat", setup=setup, warn=print, logprobs=2)
    heard(dialogue.ask(tiny, "Größe 日本語 🙂"))
    reply = dialogue.branch()[-1]
    tokens = dialogue.tokens(reply.id)
    for count in (1, 5, len(tokens) - 1):
        turn = dialogue.go_on(tiny, reply.id, tokens[:count])
        heard(turn)
        version = dialogue.branch()[-1]
        assert [token.id for token in dialogue.tokens(version.id)][: len(tokens)] == [token.id for token in tokens]
        assert version.text.startswith(reply.text.rstrip("\ufffd"))
        assert version.usage["cached_tokens"] > 0


def test_a_character_that_the_chosen_tokens_leave_incomplete_is_told_when_it_is_complete(tiny: Engine) -> None:
    pieces = [
        next(token for token in range(320) if tiny.tokenizer.bytes_of(token) == bytes([byte])) for byte in "🙂".encode()
    ]
    assert tiny.text_of(pieces[:2]) == "" and tiny.text_of(pieces) == "🙂"
    forced = Options(temperature=0, max_tokens=1, logit_bias={pieces[3]: 1000.0})
    [delta] = tiny.chat([Message("user", "hello")], forced, pieces[:3])
    assert delta.text == "🙂"
    assert tiny.count_chat([Message("user", "hello")], pieces) == tiny.count_chat([Message("user", "hello")]) + 4


def test_nothing_follows_a_token_that_ends_the_answer(tiny: Engine) -> None:
    with pytest.raises(GenerationError, match="ends with this token: nothing can follow it"):
        tiny.chat([Message("user", "hello")], Options(), [5, 0])


def test_an_encoder_decoder_cannot_go_on_from_a_token(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "model", chat_template=CHATML)
    session = ScriptedSession(hashed, vocab_size=400)
    session.whole_prompts = True
    engine = Engine(session, Tokenizer(folder), ChatTemplate(folder))
    assert engine.chat([Message("user", "hello")], Options())
    with pytest.raises(GenerationError, match="an encoder-decoder cannot go on from a token"):
        engine.chat([Message("user", "hello")], Options(), [5])


def test_the_built_in_model_continues_a_text_and_fills_its_gap(history: History, begin: Begin) -> None:
    engine = open_engine(Store(settings.models()), "builtin", Wish("onnx"))
    dialogue = begin(kind="completion", options={"temperature": 0, "max_tokens": 12})
    start = "def add(first, second):\n    return"
    heard(dialogue.continue_text(engine, start))
    assert "".join(texts(dialogue)).startswith(f"{start} ")
    heard(dialogue.fill(engine, "def add(first, second):\n    ", "\n\nprint(add(1, 2))\n"))
    assert [one.role for one in dialogue.branch()] == ["user", "assistant", "user"]
    assert list(history.messages(1)) == dialogue.branch()
    assert len(history.tokens(dialogue.branch()[1].id)) == dialogue.branch()[1].usage["completion_tokens"]
