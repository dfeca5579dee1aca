"""Stopping the model, opening it, and what can go wrong with both."""

import re
from collections.abc import Callable
from threading import Event

import pytest

from chatapp.generation import GenerationError, Options
from chatapp.text.printable import printable
from chatapp.workspace import Opened
from support.patience import PATIENCE
from support.screen_driver import EXAMPLE, beginning, running, started
from support.scripted_engine import ANSWER, FIBONACCI, Placement, ScriptedEngine, opener

# Stopping


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_stopping_frees_the_engine_and_keeps_the_text(key: str) -> None:
    engine = ScriptedEngine(FIBONACCI * 9, delay=0.005, defaults=Options(max_tokens=900))
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.until(lambda: driver.figures.tokens > 20)
        await driver.press(key)
        await driver.until(lambda: not driver.writing and not engine.busy, "the engine to be free")
        assert engine.closed == 1
        assert driver.state == "■ stopped"
        assert driver.pane.completion_page.mark == "■ stopped"
        kept = driver.written_by_model()
        assert kept and (FIBONACCI * 9).startswith(kept)
        await driver.press("ctrl+j")
        await driver.until(lambda: len(engine.asked) == 2, "the next turn to begin")
        assert engine.asked[1] == EXAMPLE + kept
        await driver.press("escape")


async def test_who_reads_above_stays_there_when_the_answer_is_stopped() -> None:
    engine = ScriptedEngine("Number.\n\n" * 60, can_chat=True, pause_after=60)
    async with running(engine) as driver:
        await driver.type("count\n")
        await driver.wrote(60)
        page = driver.pane.chat_page
        await driver.press("pageup")
        await driver.until(lambda: not page.is_vertical_scroll_end)
        stood = page.scroll_y
        await driver.press("escape")
        engine.go.set()
        await driver.until(lambda: driver.said[1][1].count("N") > 30 and not driver.pane.busy, "one token more")
        await driver.until(lambda: driver.pane.newest and not driver.pane.newest.thread.is_alive())
        await driver.pilot.pause()
        assert page.scroll_y == stood


async def test_a_reply_waits_for_the_stopped_one_that_still_computes() -> None:
    engine = ScriptedEngine(pause_after=10)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(10)
        await driver.press("escape")
        await driver.until(lambda: not driver.writing)
        await driver.press("ctrl+j")
        await driver.until(lambda: driver.pane.reply)
        assert len(engine.asked) == 1
        engine.go.set()
        await driver.until(lambda: driver.figures.usage, "the second reply to end")
        assert len(engine.asked) == 2


async def test_a_reply_stopped_before_its_turn_never_begins() -> None:
    engine = ScriptedEngine(pause_after=10)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(10)
        for _ in range(2):
            await driver.press("escape")
            await driver.until(lambda: not driver.writing)
            await driver.press("ctrl+j")
            await driver.until(lambda: driver.pane.reply)
        engine.go.set()
        await driver.until(lambda: driver.figures.usage)
        assert len(engine.asked) == 2


async def test_typing_while_the_model_writes_stops_it_and_loses_nothing() -> None:
    engine = ScriptedEngine(pause_after=12)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(12)
        written = driver.text
        await driver.type(" # no")
        await driver.until(lambda: not driver.writing)
        assert driver.text == written + " # no"
        assert driver.state == "■ stopped"


@pytest.mark.parametrize(
    ("keys", "rest"), [(["backspace"], " one tw"), (["backspace"] * 3 + ["x"], " one x"), (["ctrl+w"], " one ")]
)
async def test_deleting_while_the_model_writes_stops_it_too(keys: list[str], rest: str) -> None:
    engine = ScriptedEngine(" one two three", pause_after=2)
    async with running(engine) as driver:
        await driver.type("zero")
        await driver.press("ctrl+j")
        await driver.until(lambda: driver.text == "zero one two")
        await driver.press(*keys)
        await driver.until(lambda: not driver.writing and driver.text == f"zero{rest}")
        assert driver.state == "■ stopped"


async def test_ctrl_c_copies_a_selection_and_else_tells_how_to_leave() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.type("text")
        await driver.press("ctrl+c")
        assert driver.toasts == ["ctrl+q quits chatapp."]
        await driver.press("shift+home", "ctrl+c")
        await driver.until(lambda: driver.app.clipboard == "text")
        assert driver.app.is_running


# Opening, and what can go wrong


async def test_what_was_asked_before_the_model_was_open_is_written_then() -> None:
    engine, ready = ScriptedEngine(), Event()

    def open_engine(on_progress: Callable[[str, float], None], warn: Callable[[str], object]) -> Opened:
        on_progress("lowering", 0.4)
        ready.wait(PATIENCE)
        return opener(engine)(on_progress, warn)

    async with started(beginning(open_engine)) as driver:
        await driver.until(lambda: "lowering 40%" in driver.pane.status.hint)
        await driver.press("tab", "ctrl+j")
        assert driver.pane.wanted
        ready.set()
        await driver.answered()
        assert driver.text == EXAMPLE + FIBONACCI


async def test_leaving_waits_for_the_threads_a_moment() -> None:
    ready = Event()

    def open_engine(on_progress: Callable[[str, float], None], warn: Callable[[str], object]) -> Opened:
        ready.wait(PATIENCE)
        return opener(ScriptedEngine(pause_after=3))(on_progress, warn)

    async with started(beginning(open_engine)) as driver:
        await driver.until(lambda: driver.screen.engines.opening)
        assert not driver.screen.shut_down(0.01)
        ready.set()
        assert driver.screen.shut_down(PATIENCE)
        await driver.press("tab", "ctrl+j")
        await driver.wrote(3)
        assert not driver.screen.shut_down(0.01)
        assert driver.pane.reply and driver.pane.reply.thread.stopping.is_set()
        assert driver.pane.opened and isinstance(engine := driver.pane.opened.engine, ScriptedEngine)
        engine.go.set()
        assert driver.screen.shut_down(PATIENCE)


async def test_a_model_that_does_not_open_is_told_once_and_the_text_stays() -> None:
    def open_engine(on_progress: Callable[[str, float], None], warn: Callable[[str], object]) -> Opened:
        raise GenerationError("there is no model called [b]gpt5[/b]; chatapp list shows what there is")

    async with started(beginning(open_engine, "gpt5")) as driver:
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["There is no model called [b]gpt5[/b]; chatapp list shows what there is"]
        assert driver.state == "✗ no model"
        [first] = driver.app._notifications
        await driver.type("hello")
        await driver.press("enter")
        await driver.until(lambda: first not in driver.app._notifications and driver.toasts == [first.message])
        assert driver.pane.prompt.text == "hello"


async def test_a_backend_that_fails_is_told_and_the_place_changes_with_it() -> None:
    engine = ScriptedEngine()
    warnings: list[Callable[[str], object]] = []

    def open_engine(on_progress: Callable[[str, float], None], warn: Callable[[str], object]) -> Opened:
        warnings.append(warn)
        return opener(engine)(on_progress, warn)

    async with started(beginning(open_engine)) as driver:
        await driver.until(lambda: driver.state == "● ready")
        engine.placement = Placement("spare", "cpu", "f32")
        warnings[0]("scripted failed on npu: [b]reset[/b]")
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["scripted failed on npu: [b]reset[/b]."]
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        assert driver.pane.status.place == "spare · cpu · f32"


async def test_a_prompt_longer_than_the_context_is_refused_and_stays() -> None:
    engine = ScriptedEngine(context_length=3)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.until(lambda: driver.toasts and not driver.writing)
        [toast] = driver.toasts
        assert toast.startswith("The prompt is too long by 16 tokens (19 of 3); shorten it")
        assert toast.endswith("or choose slide (^S, when full)")
        assert driver.text == EXAMPLE
        assert driver.state == "✗ failed"
        driver.app.clear_notifications()
        await driver.until(lambda: not driver.toasts)
        reason = "the prompt is too long by 16 tokens (19 of 3)"
        await driver.until(lambda: driver.picture.count(reason) == 1)  # it outlasts the toast
        await driver.type("x")
        assert driver.text == EXAMPLE + "x"


async def test_nothing_can_slide_out_of_a_single_question() -> None:
    async with running(ScriptedEngine(context_length=3, can_chat=True)) as driver:
        await driver.type("one two three four five\n")
        await driver.until(lambda: driver.toasts and not driver.writing)
        assert driver.toasts[0].endswith("choose a model with a longer context")


async def test_a_full_context_is_said() -> None:
    async with running(ScriptedEngine(context_length=25)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        assert driver.state == "■ context full"
        assert driver.toasts == [
            "The model's context is full: start a new conversation, shorten the text, or choose slide (^S, when full)."
        ]
        assert driver.pane.heading.used == 25


async def test_a_context_of_unknown_length_is_not_said_to_be_full() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True, defaults=Options(max_tokens=5))) as driver:
        driver.pane.heading.total = 0
        await driver.type("why?\n")
        await driver.answered()
        assert driver.state == "■ max_tokens reached" and not driver.toasts


async def test_a_runtime_that_breaks_keeps_what_was_written() -> None:
    engine = ScriptedEngine(fail_after=10)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.until(lambda: driver.toasts and not driver.writing)
        assert driver.toasts == ["RuntimeError: the runtime broke"]
        assert driver.written_by_model()
        engine.fail_after = None
        await driver.press("ctrl+j")
        await driver.until(lambda: driver.figures.usage)


async def test_what_the_model_writes_cannot_drive_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07 \x1b[31mred\x9b2J \u202egnp.exe [bold red]markup[/] \r\n"
    async with running(ScriptedEngine(hostile)) as driver:
        await driver.press("x", "ctrl+j")
        await driver.answered()
        assert driver.text == "x" + printable(hostile)
        await driver.until(lambda: "[bold red]markup[/]" in driver.picture)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", driver.picture)
