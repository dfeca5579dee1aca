"""The screen, from keys to pictures: with a scripted engine, in Textual's own test driver and in a real terminal."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest
import textual
from scripted_engine import ANSWER, FIBONACCI, Placement, ScriptedEngine, opener
from textual import events
from textual.pilot import Pilot
from textual.widgets import Markdown

from chatapp.generation import GenerationError, Options
from chatapp.terminal import printable
from chatapp.tui.app import ChatApp
from chatapp.tui.figures import Figures, ceiling, strip
from chatapp.tui.opened import Opened

ROOT = Path(__file__).parent.parent
EXAMPLE = "def fibonacci(n):"


class Driver:
    """A running app: its screen, its keyboard, and patience."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot, self.screen = app, pilot, app.chat_screen

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        end = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < end, f"waited in vain: {what or condition}"
            await asyncio.sleep(0.01)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Send keys as fast as a paste without brackets would."""
        for character in text:
            self.app.post_message(events.Key("enter" if character == "\n" else character, character))
        await self.pilot.pause()

    async def answered(self) -> None:
        await self.until(lambda: self.screen.figures.tokens and not self.screen.reply, "the reply to end")

    async def wrote(self, tokens: int) -> None:
        await self.until(lambda: self.screen.figures.tokens == tokens and not self.screen.stale, f"{tokens} tokens")

    @property
    def text(self) -> str:
        return self.screen.notebook.text

    @property
    def state(self) -> str:
        return self.screen.status.state

    @property
    def toasts(self) -> list[str]:
        return [notification.message for notification in self.app._notifications]

    def written_by_model(self) -> str:
        """What the notebook shows as the model's."""
        notebook = self.screen.notebook
        lines = zip(notebook.document.lines, notebook.authors, strict=True)
        return "\n".join("".join(c for c, a in zip(line, by, strict=True) if a == "m") for line, by in lines)


@asynccontextmanager
async def running(
    engine: ScriptedEngine, *, options: Options | None = None, size: tuple[int, int] = (80, 24), theme: str = "midnight"
) -> AsyncIterator[Driver]:
    """The app with an open engine."""
    app = ChatApp(
        opener(engine),
        model="chatty" if engine.can_chat else "builtin",
        options=options,
        theme=theme,
        memory=lambda: 118_000_000,
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = Driver(app, pilot)
        await driver.until(lambda: driver.screen.opened, "the model to open")
        await pilot.pause()
        yield driver
        engine.go.set()


# The notebook


async def test_tab_takes_the_example_and_the_model_continues_it_in_place() -> None:
    engine = ScriptedEngine()
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        assert engine.asked == [EXAMPLE]
        assert driver.text == EXAMPLE + FIBONACCI
        assert driver.written_by_model() == FIBONACCI
        assert driver.state == "● done"
        assert driver.screen.figures.usage is not None


async def test_the_edited_text_is_continued_again() -> None:
    engine = ScriptedEngine("    pass")
    async with running(engine) as driver:
        await driver.type("def f():\n")
        await driver.press("ctrl+j")
        await driver.answered()
        await driver.type("\n# more\n")
        await driver.press("f5")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.screen.reply)
        assert engine.asked[1] == "def f():\n    pass\n# more\n"
        assert driver.text == "def f():\n    pass\n# more\n    pass"
        assert driver.written_by_model() == "\n    pass\n\n    pass"


async def test_undo_takes_a_whole_continuation_back_and_redo_brings_it_again() -> None:
    async with running(ScriptedEngine(delay=0.004)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        await driver.press("ctrl+z")
        assert (driver.text, driver.written_by_model()) == (EXAMPLE, "")
        await driver.press("ctrl+y")
        assert (driver.text, driver.written_by_model()) == (EXAMPLE + FIBONACCI, FIBONACCI)
        await driver.press("ctrl+z", "ctrl+z")
        assert driver.text == ""


async def test_who_wrote_what_survives_edits_and_undo() -> None:
    async with running(ScriptedEngine(" one two\n three four")) as driver:
        await driver.type("zero")
        await driver.press("ctrl+j")
        await driver.answered()
        notebook = driver.screen.notebook
        notebook.replace("AND\nMORE", (0, 6), (1, 3))  # zero o AND / MORE ree four
        assert driver.text == "zero oAND\nMOREree four"
        assert driver.written_by_model() == " o\nree four"
        await driver.press("ctrl+z")
        assert driver.written_by_model() == " one two\n three four"


async def test_again_replaces_the_last_continuation_and_changes_a_fixed_seed() -> None:
    engine = ScriptedEngine(" more")
    async with running(engine, options=Options(seed=5)) as driver:
        await driver.type("text")
        await driver.press("ctrl+j")
        await driver.answered()
        await driver.press("ctrl+r")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.screen.reply)
        assert engine.asked == ["text", "text"]
        assert [options.seed for options in engine.options] == [5, 6]
        assert driver.text == "text more"


async def test_the_gap_at_the_cursor_is_filled() -> None:
    engine = ScriptedEngine("return a + b")
    async with running(engine) as driver:
        await driver.type("def add(a, b):\n    \n\nprint(1)")
        assert not driver.screen.notebook.check_action("fill_gap", ())
        await driver.press("up", "up", "end", "ctrl+f")
        await driver.answered()
        assert engine.asked == ["def add(a, b):\n    <gap>\n\nprint(1)"]
        assert driver.text == "def add(a, b):\n    return a + b\n\nprint(1)"
        await driver.press("ctrl+r")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.screen.reply)
        assert driver.text == "def add(a, b):\n    return a + b\n\nprint(1)"


async def test_a_continuation_pauses_unless_its_length_was_chosen() -> None:
    engine = ScriptedEngine(FIBONACCI * 5)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        assert driver.screen.figures.tokens == engine.options[0].max_tokens == 128
        assert driver.state == "● paused"


async def test_an_empty_page_is_not_sent() -> None:
    engine = ScriptedEngine()
    async with running(engine) as driver:
        await driver.press("ctrl+j")
        assert driver.toasts == ["Write something first, or take the example with tab."]
        assert not engine.asked


async def test_new_empties_the_page_and_undo_brings_it_back() -> None:
    async with running(ScriptedEngine()) as driver:
        assert driver.screen.welcome.display
        await driver.type("text")
        assert not driver.screen.welcome.display
        await driver.press("ctrl+n")
        assert driver.text == ""
        assert driver.screen.welcome.display
        await driver.press("ctrl+z")
        assert driver.text == "text"


# Stopping


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_stopping_frees_the_engine_and_keeps_the_text(key: str) -> None:
    engine = ScriptedEngine(FIBONACCI * 9, delay=0.005)
    async with running(engine, options=Options(max_tokens=900)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.until(lambda: driver.screen.figures.tokens > 20)
        await driver.press(key)
        await driver.until(lambda: not driver.screen.reply and not engine.busy, "the engine to be free")
        assert engine.closed == 1
        assert driver.state == "■ stopped"
        assert driver.screen.notebook.mark == "■ stopped"
        kept = driver.written_by_model()
        assert kept and (FIBONACCI * 9).startswith(kept)
        await driver.press("ctrl+j")
        await driver.until(lambda: len(engine.asked) == 2, "the next turn to begin")
        assert engine.asked[1] == EXAMPLE + kept
        await driver.press("escape")


async def test_a_reply_waits_for_the_stopped_one_that_still_computes() -> None:
    engine = ScriptedEngine(pause_after=10)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(10)
        await driver.press("escape")
        await driver.until(lambda: not driver.screen.reply)
        await driver.press("ctrl+j")
        await driver.until(lambda: driver.screen.reply)
        assert len(engine.asked) == 1
        engine.go.set()
        await driver.until(lambda: driver.screen.figures.usage, "the second reply to end")
        assert len(engine.asked) == 2


async def test_a_reply_stopped_before_its_turn_never_begins() -> None:
    engine = ScriptedEngine(pause_after=10)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(10)
        for _ in range(2):
            await driver.press("escape")
            await driver.until(lambda: not driver.screen.reply)
            await driver.press("ctrl+j")
            await driver.until(lambda: driver.screen.reply)
        engine.go.set()
        await driver.until(lambda: driver.screen.figures.usage)
        assert len(engine.asked) == 2


async def test_typing_while_the_model_writes_stops_it_and_loses_nothing() -> None:
    engine = ScriptedEngine(pause_after=12)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(12)
        written = driver.text
        await driver.type(" # no")
        await driver.until(lambda: not driver.screen.reply)
        assert driver.text == written + " # no"
        assert driver.state == "■ stopped"


async def test_ctrl_c_copies_a_selection_and_else_tells_how_to_leave() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.type("text")
        await driver.press("ctrl+c")
        assert driver.toasts == ["ctrl+q leaves chatapp."]
        await driver.press("f7", "ctrl+c")
        assert driver.app.clipboard == "text"
        assert driver.app.is_running


# Opening, and what can go wrong


async def test_what_was_asked_before_the_model_was_open_is_written_then() -> None:
    engine, ready = ScriptedEngine(), Event()

    def open_engine(on_progress: Callable[[str, float], None], warn: Callable[[str], None]) -> Opened:
        on_progress("lowering", 0.4)
        ready.wait(10)
        return opener(engine)(on_progress, warn)

    async with ChatApp(open_engine).run_test() as pilot:
        driver = Driver(pilot.app, pilot)  # type: ignore[arg-type]  # run_test does not say which app it runs
        await driver.until(lambda: "lowering 40%" in driver.screen.status.hint)
        await driver.press("tab", "ctrl+j")
        assert driver.screen.wanted
        ready.set()
        await driver.answered()
        assert driver.text == EXAMPLE + FIBONACCI


async def test_leaving_waits_for_the_threads_a_moment() -> None:
    ready = Event()

    def open_engine(on_progress: Callable[[str, float], None], warn: Callable[[str], None]) -> Opened:
        ready.wait(10)
        return opener(ScriptedEngine(pause_after=3))(on_progress, warn)

    async with ChatApp(open_engine).run_test() as pilot:
        driver = Driver(pilot.app, pilot)  # type: ignore[arg-type]  # run_test does not say which app it runs
        await driver.until(lambda: driver.screen.opening)
        assert not driver.screen.rest(0.01)
        ready.set()
        assert driver.screen.rest(5)
        await driver.press("tab", "ctrl+j")
        await driver.wrote(3)
        assert not driver.screen.rest(0.01)
        assert driver.screen.reply and driver.screen.reply.stopping.is_set()
        assert driver.screen.opened and isinstance(engine := driver.screen.opened.engine, ScriptedEngine)
        engine.go.set()
        assert driver.screen.rest(5)


async def test_a_model_that_does_not_open_is_told_once_and_the_text_stays() -> None:
    def open_engine(on_progress: Callable[[str, float], None], warn: Callable[[str], None]) -> Opened:
        raise GenerationError("there is no model called [b]gpt5[/b]; chatapp list shows what there is")

    async with ChatApp(open_engine, model="gpt5").run_test() as pilot:
        driver = Driver(pilot.app, pilot)  # type: ignore[arg-type]  # run_test does not say which app it runs
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["there is no model called [b]gpt5[/b]; chatapp list shows what there is"]
        assert driver.state == "✗ no model"
        await driver.type("hello")
        await driver.press("enter")
        await driver.until(lambda: len(driver.toasts) == 2)
        assert driver.screen.prompt.text == "hello"


async def test_a_backend_that_fails_is_told_and_the_place_changes_with_it() -> None:
    engine = ScriptedEngine()
    warnings: list[Callable[[str], None]] = []

    def open_engine(on_progress: Callable[[str, float], None], warn: Callable[[str], None]) -> Opened:
        warnings.append(warn)
        return opener(engine)(on_progress, warn)

    async with ChatApp(open_engine).run_test() as pilot:
        driver = Driver(pilot.app, pilot)  # type: ignore[arg-type]  # run_test does not say which app it runs
        await driver.until(lambda: driver.state == "● ready")
        engine.placement = Placement("spare", "cpu", "f32")
        warnings[0]("scripted failed on npu: [b]reset[/b]")
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["scripted failed on npu: [b]reset[/b]; trying the next best."]
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        assert driver.screen.status.place == "spare · cpu · f32"


async def test_a_prompt_longer_than_the_context_is_refused_and_stays() -> None:
    engine = ScriptedEngine(context_length=3)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.until(lambda: driver.toasts and not driver.screen.reply)
        assert driver.toasts == ["the prompt is 5 tokens, this model holds 3; shorten it by 2"]
        assert driver.text == EXAMPLE
        assert driver.state == "✗ failed"
        await driver.type("x")
        assert driver.text == EXAMPLE + "x"


async def test_a_full_context_is_said() -> None:
    async with running(ScriptedEngine(context_length=25)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        assert driver.state == "■ context full"
        assert driver.toasts == ["The model's context is full: start anew, or shorten the text."]
        assert driver.screen.heading.used == 25


async def test_a_runtime_that_breaks_keeps_what_was_written() -> None:
    engine = ScriptedEngine(fail_after=10)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.until(lambda: driver.toasts and not driver.screen.reply)
        assert driver.toasts == ["RuntimeError: the runtime broke"]
        assert driver.written_by_model()
        engine.fail_after = None
        await driver.press("ctrl+j")
        await driver.until(lambda: driver.screen.figures.usage)


async def test_what_the_model_writes_cannot_drive_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07 \x1b[31mred\x9b2J \u202egnp.exe [bold red]markup[/] \r\n"
    async with running(ScriptedEngine(hostile)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        shown = "".join(str(strip) for y in range(24) for strip in [driver.screen._compositor.render_strips()[y].text])
        assert driver.text == EXAMPLE + printable(hostile)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)
        assert "[bold red]markup[/]" in shown


# Chat


async def test_a_model_with_a_template_answers_messages() -> None:
    engine = ScriptedEngine(ANSWER, can_chat=True)
    async with running(engine) as driver:
        await driver.type("why?")
        await driver.press("enter")
        await driver.answered()
        assert engine.asked == ["why?"]
        assert driver.screen.conversation.query_one(Markdown).source == ANSWER
        assert driver.screen.turns == [("user", "why?"), ("assistant", ANSWER)]
        await driver.type("two")
        await driver.press("ctrl+j")
        await driver.type("lines\n")
        await driver.until(lambda: len(driver.screen.turns) == 4)
        assert engine.asked[1] == f"why?\n{ANSWER}\ntwo\nlines"


async def test_again_asks_the_last_question_once_more_and_new_forgets_it() -> None:
    engine = ScriptedEngine("Because.", can_chat=True)
    async with running(engine) as driver:
        await driver.type("why?\n")
        await driver.answered()
        await driver.type("a draft")
        await driver.press("ctrl+r")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.screen.reply)
        assert driver.screen.prompt.text == "a draft"
        assert engine.asked == ["why?", "why?"]
        assert len(driver.screen.query(".exchange")) == 1
        await driver.press("ctrl+n")
        assert driver.screen.turns == [] and not driver.screen.query(".exchange")


async def test_a_refused_message_returns_to_the_prompt() -> None:
    async with running(ScriptedEngine(can_chat=True, context_length=2)) as driver:
        await driver.type("much too long a question\n")
        await driver.until(lambda: driver.toasts and not driver.screen.reply)
        assert driver.screen.prompt.text == "much too long a question"
        assert driver.screen.turns == [] and not driver.screen.query(".exchange")


async def test_a_stopped_answer_is_kept_and_marked() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True, pause_after=8)) as driver:
        await driver.type("why?\n")
        await driver.wrote(8)
        await driver.type("next")
        await driver.press("enter", "escape")
        await driver.until(lambda: not driver.screen.reply)
        assert driver.screen.turns[1][1] and ANSWER.startswith(driver.screen.turns[1][1])
        assert driver.screen.query(".mark")
        assert driver.screen.prompt.text == "next"


async def test_a_message_stopped_before_its_answer_returns_to_the_prompt() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True, pause_after=0)) as driver:
        await driver.type("why?\n")
        await driver.until(lambda: driver.screen.reply)
        await driver.press("escape")
        await driver.until(lambda: not driver.screen.reply)
        assert driver.screen.prompt.text == "why?"
        assert driver.screen.turns == [] and not driver.screen.query(".exchange")


async def test_old_answers_settle_into_one_widget_each() -> None:
    async with running(ScriptedEngine("**Yes.**", can_chat=True)) as driver:
        for question in range(9):
            await driver.type(f"{question}\n")
            await driver.until(lambda asked=question: len(driver.screen.turns) == 2 * asked + 2)  # type: ignore[misc]
        assert len(driver.screen.query(Markdown)) == 6
        assert len(driver.screen.query(".answer")) == 9


# Modes, themes, commands


async def test_modes_and_themes_are_commands() -> None:
    async with running(ScriptedEngine(can_chat=True)) as driver:
        titles = {command.title: command.callback for command in driver.app.get_system_commands(driver.app.screen)}
        assert {"Mode: chat", "Mode: completion", "Theme: paper", "Theme: contrast", "Quit"} <= titles.keys()
        assert set(driver.app.available_themes) == {"midnight", "paper", "contrast"}
        titles["Theme: paper"]()
        assert driver.app.theme == "paper"
        await driver.type("moves along")
        await titles["Mode: completion"]()
        await driver.pilot.pause()
        assert (driver.text, driver.screen.prompt.text) == ("moves along", "")
        await driver.press("ctrl+j")
        await driver.answered()
        assert driver.written_by_model()


async def test_a_model_without_a_template_does_not_chat() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.screen.action_mode("chat")
        assert driver.screen.mode == "completion"
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["builtin has no chat template: it continues text."]


async def test_the_mode_stays_while_the_model_writes() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True, pause_after=5)) as driver:
        await driver.type("why?\n")
        await driver.wrote(5)
        await driver.screen.action_mode("completion")
        await driver.type("more\n")
        await driver.until(lambda: len(driver.toasts) == 2)
        assert driver.screen.mode == "chat"
        assert driver.screen.prompt.text == "more"


async def test_the_palette_opens() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.press("ctrl+p")
        await driver.until(lambda: type(driver.app.screen).__name__ == "CommandPalette")
        await driver.type("paper")
        await driver.pilot.pause(0.3)
        await driver.press("enter")
        await driver.until(lambda: driver.app.theme == "paper")


async def test_a_click_on_a_key_presses_it() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.press("tab")
        await driver.pilot.click("Keys", offset=(5, 0))
        await driver.answered()
        assert driver.written_by_model()


async def test_resizing_while_the_model_writes_keeps_the_end_in_view() -> None:
    engine = ScriptedEngine(FIBONACCI * 3, pause_after=100)
    async with running(engine, size=(120, 40)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(100)
        await driver.pilot.resize_terminal(60, 12)
        engine.go.set()
        await driver.answered()
        await driver.pilot.pause()
        notebook = driver.screen.notebook
        assert notebook.size.height == 6
        assert notebook.scroll_y == notebook.max_scroll_y > 0


async def test_the_view_stays_where_its_reader_scrolled_to() -> None:
    engine = ScriptedEngine(FIBONACCI * 3, pause_after=100)
    async with running(engine, size=(80, 14)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(100)
        notebook = driver.screen.notebook
        notebook.scroll_to(y=2, animate=False, force=True)
        await driver.pilot.pause()
        engine.go.set()
        await driver.answered()
        await driver.pilot.pause()
        assert notebook.scroll_y == 2


async def test_without_colours_the_users_words_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(ScriptedEngine()) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        notebook = driver.screen.notebook
        assert driver.app.no_color
        assert notebook.styles.text_style.bold
        assert not notebook.get_component_rich_style("notebook--model").bold


async def test_a_theme_changes_what_is_already_written() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        themes = driver.app.available_themes
        for old, new in (("midnight", "paper"), ("paper", "contrast")):
            assert themes[old].variables["model"] in driver.app.export_screenshot()
            driver.app.theme = new
            await driver.pilot.pause()
            assert themes[new].variables["model"] in driver.app.export_screenshot()
            assert themes[old].variables["model"] not in driver.app.export_screenshot()


async def test_a_theme_that_is_not_there_is_said() -> None:
    async with running(ScriptedEngine(), theme="neon") as driver:
        assert driver.app.theme == "midnight"
        assert driver.toasts == ["there is no theme 'neon'; choose from contrast, midnight, paper"]


# The context meter and the figures


async def test_the_context_meter_counts_what_is_typed_and_written() -> None:
    async with running(ScriptedEngine(pause_after=30)) as driver:
        await driver.press("tab")
        await driver.until(lambda: driver.screen.heading.used == 5)
        await driver.press("ctrl+j")
        await driver.wrote(30)
        assert driver.screen.heading.used == 35
        assert driver.screen.heading.total == 1024


@pytest.mark.parametrize("seconds", [0.00031, 0.0042, 0.0125, 0.031, 0.4, 3.0])
def test_the_scale_of_the_strip_is_a_round_number_above(seconds: float) -> None:
    assert seconds <= ceiling(seconds) <= 1.7 * seconds


def test_the_strip_is_full_at_the_top_of_its_scale() -> None:
    assert strip([0.001, 0.02, 0.04], 0.04) == "▁▅█"


def test_figures_added_up_agree_with_the_engines_summary() -> None:
    deltas = list(ScriptedEngine().complete(EXAMPLE, Options()))
    live = Figures(prompt_tokens=5)
    live.add(deltas[:-1])
    done = Figures()
    done.add(deltas)
    assert live.usage is None and done.usage is not None
    assert done.tokens == live.tokens + 1 == 103
    assert live.time_to_first_token == pytest.approx(done.time_to_first_token)
    assert live.tokens_per_second == pytest.approx(done.tokens_per_second, rel=0.02)
    assert live.p95 == pytest.approx(done.p95, rel=0.05)


# Pictures


def compare(app: ChatApp, name: str, tmp_path: Path) -> None:
    """Compare the screen with its picture; SNAPSHOTS=update takes new ones, to be looked at."""
    folder = Path(__file__).parent / "__snapshots__" / "test_tui"
    version = folder / "textual-version"
    svg = re.sub(r"terminal-\d+", "terminal", app.export_screenshot(title="chatapp"))
    if os.environ.get("SNAPSHOTS") == "update":
        folder.mkdir(parents=True, exist_ok=True)
        version.write_text(textual.__version__)
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    if (taken := version.read_text()) != textual.__version__:
        pytest.skip(f"the pictures were taken with Textual {taken}, this is {textual.__version__}")
    if svg != (folder / f"{name}.svg").read_text(encoding="utf-8"):
        (tmp_path / f"{name}.svg").write_text(svg, encoding="utf-8")
        pytest.fail(f"the screen looks different: compare {folder / name}.svg and {tmp_path / name}.svg")


async def first(driver: Driver) -> None:
    await driver.until(lambda: driver.screen.heading.about)


async def streaming(driver: Driver) -> None:
    await driver.press("tab", "ctrl+j")
    await driver.wrote(40)


async def stopped(driver: Driver) -> None:
    await streaming(driver)
    await driver.press("escape")
    await driver.until(lambda: not driver.screen.reply)


async def finished(driver: Driver) -> None:
    await driver.press("tab", "ctrl+j")
    await driver.answered()


async def refused(driver: Driver) -> None:
    await driver.press("tab", "ctrl+j")
    await driver.until(lambda: driver.screen.query("Toast"))


async def chat(driver: Driver) -> None:
    await driver.type("why is decoding slower?\n")
    await driver.answered()


SCENES: dict[str, tuple[Callable[[Driver], Awaitable[None]], Callable[[], ScriptedEngine]]] = {
    "first": (first, ScriptedEngine),
    "streaming": (streaming, lambda: ScriptedEngine(pause_after=40)),
    "stopped": (stopped, lambda: ScriptedEngine(pause_after=40)),
    "finished": (finished, ScriptedEngine),
    "refused": (refused, lambda: ScriptedEngine(context_length=3)),
    "chat": (chat, lambda: ScriptedEngine(ANSWER, can_chat=True)),
}


@pytest.mark.parametrize("theme", ["midnight", "paper"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.parametrize("scene", SCENES)
async def test_the_screen_looks_as_in_its_picture(
    scene: str, size: tuple[int, int], theme: str, tmp_path: Path
) -> None:
    play, make_engine = SCENES[scene]
    async with running(make_engine(), size=size, theme=theme) as driver:
        driver.app.animation_level = "none"
        await play(driver)
        await driver.pilot.pause()
        compare(driver.app, f"{scene}-{size[0]}x{size[1]}-{theme}", tmp_path)


# The process


def test_the_first_frame_waits_for_nothing_heavy() -> None:
    probe = """
        import sys
        from threading import Event
        from chatapp.tui import app, chat_screen

        def first_frame(self):
            print(*sys.modules)
            self.app.exit()

        chat_screen.ChatScreen.load = first_frame
        app.ChatApp(lambda on_progress, warn: Event().wait()).run(headless=True, size=(80, 24))
    """
    command = [sys.executable, "-c", textwrap.dedent(probe)]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout.split()
    slow = "numpy onnxruntime openvino tokenizers jinja2 huggingface_hub pydantic aiohttp httpx markdown_it pygments"
    ours = {name for name in loaded if name.split(".")[0] in ("backends", "model_store")} | {
        name for name in loaded if name.startswith("chatapp.generation.")
    }
    assert "chatapp.tui.chat_screen" in loaded
    assert {name.split(".")[0] for name in loaded}.isdisjoint(slow.split())
    assert "textual.widgets._markdown" not in loaded
    assert not ours


@pytest.fixture
def terminal() -> Iterator[Callable[..., str]]:
    """A real terminal of 80 by 24, driven by tmux."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    server = f"chatapp-{uuid4().hex[:8]}"
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "TMUX")}

    def tmux(*arguments: str) -> str:
        command = ["tmux", "-L", server, "-f", "/dev/null", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20).stdout

    yield tmux
    tmux("kill-server")


def test_in_a_real_terminal_one_types_sees_the_answer_stops_it_and_leaves(terminal: Callable[..., str]) -> None:
    # env -u: pytest's readline puts COLUMNS and LINES into the environment of children, and Textual would obey them.
    program = f"cd {ROOT} && PYTHONPATH=. {sys.executable} tests/scripted_engine.py; echo left with $?; sleep 60"
    terminal("new-session", "-d", "-s", "app", "-x", "80", "-y", "24", f"env -u COLUMNS -u LINES sh -c '{program}'")

    def wait_for(*texts: str) -> None:
        end = time.monotonic() + 15
        while not all(text in (screen := terminal("capture-pane", "-p", "-t", "app")) for text in texts):
            assert time.monotonic() < end, f"no {texts} on the screen:\n{screen}"
            time.sleep(0.05)

    wait_for("● ready", "continues your text", "^J Continue")
    terminal("send-keys", "-t", "app", "-l", "def fibonacci(n):")
    wait_for("def fibonacci(n):", "5 / 1,024")
    terminal("send-keys", "-t", "app", "C-j")
    wait_for("● writing", "tok/s", "a, b = b, a + b")
    terminal("resize-window", "-t", "app", "-x", "100", "-y", "30")
    terminal("send-keys", "-t", "app", "Escape")
    wait_for("■ stopped", "first token", "onnx · cpu · int8")
    terminal("send-keys", "-t", "app", "C-c")
    wait_for("ctrl+q leaves chatapp.")
    terminal("send-keys", "-t", "app", "C-q")
    wait_for("left with 0")
