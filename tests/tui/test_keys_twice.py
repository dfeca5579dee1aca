"""A key may be pressed again before its screen is gone: that ends the screen once, and no other."""

from pathlib import Path

import pytest
from textual import events
from textual.widgets import TextArea

from chatapp.tui.answers.comparison import ComparisonScreen
from chatapp.tui.engines import Choice
from chatapp.tui.sampling.lines_screen import LinesScreen
from chatapp.workspace import Opened
from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine


async def burst(driver: Driver, *keys: str) -> None:
    """Send keys without waiting for what they do."""
    for key in keys:
        driver.app.post_message(events.Key(key, key if len(key) == 1 else None))
    await driver.pilot.pause()


async def test_an_answer_of_a_comparison_is_kept_once() -> None:
    kept = list[str | None]()
    screen = ComparisonScreen(
        ["a", "b"],
        [],
        lambda choice, *rest: Opened(ScriptedEngine("one"), choice.model, 1, 0.1),
        prompt="x",
        chosen=[Choice("a"), Choice("b")],
    )
    async with running(ScriptedEngine()) as driver:
        await driver.app.push_screen(screen, kept.append)
        await driver.press("f5")
        await driver.until(lambda: screen.results and not screen.answering, "the comparison to end")
        await burst(driver, "enter", "enter", "enter")
        await driver.until(lambda: driver.app.screen is driver.screen)
        assert [one for one in kept if one] == ["one"]


@pytest.mark.parametrize("opening", ["f1", "f2", "f6", "f7", "ctrl+p"])
async def test_a_click_beside_a_window_leaves_it(opening: str) -> None:
    async with running(ScriptedEngine(can_chat=True), size=(120, 40)) as driver:
        await driver.press(opening)
        await driver.until(lambda: len(driver.app.screen_stack) == 2 and driver.app.screen.is_mounted, opening)
        await driver.pilot.pause()
        if opening in ("f1", "f7"):  # elsewhere it would choose
            await driver.pilot.click(offset=(60, 20))
            await driver.pilot.pause()
            assert len(driver.app.screen_stack) == 2
        await driver.pilot.click(offset=(1, 1))
        await driver.until(lambda: driver.app.screen is driver.screen)


async def test_a_click_beside_a_window_takes_no_text_away_that_is_written_there() -> None:
    async with running(ScriptedEngine(can_chat=True), size=(120, 40)) as driver:
        driver.screen.action_over("sampling.system_prompt_screen:SystemPromptScreen")
        await driver.until(lambda: driver.app.screen.query(TextArea) and driver.app.screen is not driver.screen)
        window = driver.app.screen
        await driver.press("tab", *"You are")
        await driver.pilot.click(offset=(1, 1))
        await driver.press("!")
        await driver.until(lambda: window.query_one(TextArea).text == "You are!", "what is typed then")
        await driver.press("tab")
        await driver.until(lambda: not window.query_one(TextArea).has_focus, "the list to have the keys")
        await driver.pilot.click(offset=(1, 1))
        await driver.pilot.pause()
        assert driver.app.screen is window


@pytest.mark.parametrize(
    ("opening", "ending"),
    [
        ("ctrl+t", "t"),
        ("ctrl+t", "escape"),
        ("ctrl+t", "2"),
        ("ctrl+l", "q"),
        ("ctrl+o", "escape"),
        ("f7", "3"),
        ("f7", "escape"),
        ("f3", "escape"),
        ("f2", "enter"),
        ("f1", "escape"),
    ],
)
async def test_a_screen_ends_once(tmp_path: Path, opening: str, ending: str) -> None:
    engine = ScriptedEngine("one two", can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("a\n")
        await driver.answered()
        await driver.press(opening)
        await driver.until(lambda: len(driver.app.screen_stack) == 2 and driver.app.screen.is_mounted, opening)
        await driver.pilot.pause()
        await burst(driver, *[ending] * 3)
        await driver.until(lambda: driver.app.screen is driver.screen)
        await driver.pilot.pause()
        assert len(driver.app.screen_stack) == 1


async def test_two_clicks_on_the_key_that_leaves_a_window_leave_that_alone() -> None:
    async with running(ScriptedEngine(can_chat=True)) as driver:
        await driver.app.push_screen(LinesScreen("", "", "", str))
        await driver.pilot.pause()
        keys = driver.app.screen.query_one("#keys")
        x, y = keys.region.offset + (keys.render_line(0).text.index("esc"), 0)
        for kind in (events.MouseDown, events.MouseUp) * 2:
            driver.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
        await driver.until(lambda: driver.app.screen is driver.screen)
        await driver.type("on")
        assert driver.pane.prompt.text == "on"
