"""What is seen of an answer while it is written: that answer only, as far as it is."""

from pathlib import Path

import pytest

from chatapp.tui.insight.heat import HeatScreen
from chatapp.tui.insight.latencies import LatencyScreen
from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine


async def shown(driver: Driver) -> HeatScreen:
    """The heat once it is on the screen."""
    await driver.until(lambda: isinstance(driver.app.screen, HeatScreen) and driver.app.screen.is_mounted, "the heat")
    assert isinstance(driver.app.screen, HeatScreen)
    return driver.app.screen


def text(screen: HeatScreen) -> str:
    return "".join(token.text for token in screen.heat.tokens)


async def test_the_next_reply_does_not_run_into_the_one_that_is_shown(tmp_path: Path) -> None:
    engine = ScriptedEngine(turns=["one two"], text="three four five six seven", pause_after=1, can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("a\n")
        await driver.wrote(1)
        await driver.type("b\n")
        await driver.press("ctrl+t")
        heat = await shown(driver)
        engine.go.set()
        await driver.until(lambda: len(driver.said) == 4 and not driver.writing, "both replies")
        await driver.until(lambda: not heat.growing() and len(heat.heat.tokens) == len(heat.tokens), "the heat to end")
        assert text(heat) == "one two"


async def test_escape_stops_the_answer_and_then_leaves(tmp_path: Path) -> None:
    engine = ScriptedEngine("word " * 1000, delay=0.01, can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("a\n")
        await driver.until(lambda: driver.figures.tokens > 2)
        await driver.press("ctrl+t")
        heat = await shown(driver)
        await driver.until(lambda: "esc Stop" in driver.picture)
        await driver.press("escape")
        await driver.until(lambda: not driver.writing and not heat.growing(), "the reply to end")
        assert driver.app.screen is heat
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is driver.screen)


@pytest.mark.parametrize("index", [0, 1])
async def test_each_of_several_answers_grows(tmp_path: Path, index: int) -> None:
    engine = ScriptedEngine(texts=("one two three", "un deux trois"), pause_after=2, can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("a")
        await driver.pane.several(2)
        await driver.until(lambda: driver.pane.newest and list(map(len, driver.pane.newest.tokens)) == [2, 2])
        await driver.press(str(index + 1), "h")
        heat = await shown(driver)
        engine.go.set()
        await driver.until(lambda: text(heat) == engine.texts[index], "the rest of the answer")


async def test_the_latencies_of_an_answer_are_there_while_it_is_written(tmp_path: Path) -> None:
    engine = ScriptedEngine("one two three", pause_after=3, can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("a\n")
        await driver.wrote(3)
        await driver.press("ctrl+l")
        await driver.until(lambda: isinstance(driver.app.screen, LatencyScreen))
        assert isinstance(screen := driver.app.screen, LatencyScreen)
        assert [step.token.text for step in screen.answer.steps if step.token] == ["one", " two", " thre"]
        assert screen.answer.latencies == (0.0131, 0.0119)
