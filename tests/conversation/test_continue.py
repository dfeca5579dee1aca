"""An answer that was cut off goes on, in the same message: in a dialogue, in the loop and on the screen."""

import asyncio
from dataclasses import replace

import pytest

from chatapp.conversation.turn import is_cut_off
from chatapp.generation import GenerationError
from chatapp.history import History, Message
from support.dialogues import Begin, chatty, heard, texts
from support.line_view import Desk
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine

WHOLE = "Good day to you and to all of yours"


def test_an_answer_that_max_tokens_ended_goes_on_in_the_same_message(history: History, begin: Begin) -> None:
    dialogue, engine = begin(options={"max_tokens": 3}), chatty(WHOLE)
    heard(dialogue.ask(engine, "hello"))
    cut = dialogue.branch()[-1]
    assert (cut.text, cut.finish_reason) == ("Good day to", "length") and is_cut_off(cut)
    dialogue.change(begin().setup)
    turn = dialogue.resume(engine, cut.id)
    assert turn.resumed and turn.question is None
    assert heard(turn) == [WHOLE]
    whole = dialogue.branch()[-1]
    assert (whole.id, whole.versions, whole.text, whole.finish_reason) == (cut.id, (cut.id,), WHOLE, "stop")
    assert engine.begun[-1] == tuple(token.id for token in dialogue.tokens(cut.id)[:3])
    assert list(history.messages(1)) == dialogue.branch()
    tokens, latencies = history.tokens(cut.id), history.latencies(cut.id)
    assert "".join(token.text for token in tokens) == WHOLE and len(latencies) == len(tokens) - 1
    with pytest.raises(GenerationError, match="is complete"):
        dialogue.resume(engine, cut.id)


def test_what_a_crash_left_goes_on_from_its_text(history: History, begin: Begin) -> None:
    dialogue, engine = begin(), chatty(WHOLE)
    turn = dialogue.ask(engine, "hello")
    for _ in range(4):
        next(turn.deltas)
    dialogue.save()  # and then nothing more: killed
    opened = begin(1)
    left = opened.branch()[-1]
    assert left.text and not left.finished and not history.tokens(left.id) and is_cut_off(left)
    turn.deltas.close()
    again = chatty(WHOLE, vocabulary=engine.vocabulary)
    assert heard(opened.resume(again, left.id)) == [WHOLE]
    assert again.text_of(again.begun[-1]) == left.text
    assert texts(begin(1)) == ["hello", WHOLE]


def test_going_on_that_gives_nothing_leaves_the_answer_as_it_was(begin: Begin) -> None:
    dialogue, engine = begin(options={"max_tokens": 3}), chatty(WHOLE)
    heard(dialogue.ask(engine, "hello"))
    turn = dialogue.resume(engine, dialogue.branch()[-1].id)
    turn.deltas.close()
    assert turn.withdrawn
    assert texts(dialogue) == ["hello", "Good day to"]
    assert is_cut_off(dialogue.branch()[-1]) and dialogue.branch()[-1].finish_reason == "length"


def test_only_the_last_answer_goes_on_and_only_with_its_model(begin: Begin) -> None:
    dialogue, engine = begin(options={"max_tokens": 3}), chatty(WHOLE)
    heard(dialogue.ask(engine, "hello"))
    first = dialogue.branch()[-1].id
    heard(dialogue.ask(engine, "more"))
    with pytest.raises(GenerationError, match="only the last answer"):
        dialogue.resume(engine, first)
    other = begin(1)
    other.change(type(other.setup)("another"))
    with pytest.raises(GenerationError, match="scripted wrote this answer"):
        other.resume(engine, other.branch()[-1].id)


def test_an_imported_answer_is_not_cut_off() -> None:
    assert not is_cut_off(Message(1, 1, None, "assistant", "whole", 0.0))
    assert is_cut_off(Message(1, 1, None, "assistant", "part", 0.0, finished=False))


def test_the_loop_goes_on_with_slash_continue(begin: Begin) -> None:
    desk = Desk(chatty(WHOLE), begin(options={"max_tokens": 3}).setup)
    desk.do("hello")
    desk.dialogue.change(begin().setup)
    assert desk.do("/continue") == WHOLE
    assert desk.branch == ["hello", WHOLE]


async def test_one_key_continues_on_the_screen_and_the_mark_says_which() -> None:
    async with running(ScriptedEngine(WHOLE, can_chat=True, pause_after=4)) as driver:
        await driver.type("hello\n")
        await driver.wrote(4)
        await driver.press("escape")
        driver.pane.opened.engine.go.set()  # type: ignore[union-attr]  # the stand-in
        await driver.until(lambda: "■ stopped — F5 continues" in driver.picture)
        await driver.press("f5")
        await driver.until(lambda: not driver.writing and driver.said[-1] == ("assistant", WHOLE))
        await driver.until(lambda: "F5 continues" not in driver.picture and WHOLE in driver.picture)
        assert len(driver.said) == 2
        await driver.press("f5")
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["This answer is complete; for another one: /again"]


async def test_a_message_that_two_would_show_at_once_is_there_once() -> None:
    async with running(ScriptedEngine(WHOLE, can_chat=True)) as driver:
        await driver.type("hello\n")
        await driver.answered()
        page = driver.pane.chat_page
        page.said[-1].update(replace(page.said[-1].said, text="Good"), newest=True)  # as before its last token came
        await asyncio.gather(page.show(), page.show_end())
        assert [view.said.role for view in page.said] == ["user", "assistant"]


async def test_what_a_slow_model_still_says_after_a_stop_is_not_said_twice() -> None:
    engine = ScriptedEngine(WHOLE, can_chat=True, pause_after=4)
    async with running(engine) as driver:
        await driver.type("hello\n")
        await driver.wrote(4)
        await driver.press("escape")
        await driver.until(lambda: "■ stopped — F5 continues" in driver.picture)
        pressed = asyncio.create_task(driver.press("f5"))
        await asyncio.sleep(0.1)
        engine.go.set()  # the token that was being computed comes now
        await pressed
        await driver.until(lambda: not driver.writing and driver.said[-1] == ("assistant", WHOLE))
        await driver.until(lambda: WHOLE in driver.picture)
