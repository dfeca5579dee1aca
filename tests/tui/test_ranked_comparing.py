"""Comparisons of models on small screens, ranked, and seen token by token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from chatapp.tui.answers.columns import Columns
from chatapp.tui.answers.comparison import ComparisonScreen
from chatapp.tui.engines import Choice
from chatapp.tui.insight.heat import HeatScreen
from chatapp.workspace import Opened
from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine


@asynccontextmanager
async def comparing(
    *engines: ScriptedEngine, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Driver, ComparisonScreen]]:
    """A comparison of so many models, which are all chosen."""
    models = {f"a-model-with-a-long-name-{number}": engine for number, engine in enumerate(engines, 1)}

    def open_model(choice: Choice, *tell: object) -> Opened:
        return Opened(models[choice.model], choice.model, 1, 0.1)

    screen = ComparisonScreen(list(models), [], open_model, prompt="x", chosen=[Choice(model) for model in models])
    async with running(ScriptedEngine(), size=size) as driver:
        await driver.app.push_screen(screen)
        yield driver, screen
        for engine in engines:
            engine.go.set()


async def ended(driver: Driver, screen: ComparisonScreen) -> Columns:
    await driver.press("f5")
    await driver.until(lambda: screen.results and not screen.answering, "the comparison to end")
    assert screen.columns
    return screen.columns


async def test_models_are_ranked_by_what_they_think_of_their_own_answers() -> None:
    async with comparing(ScriptedEngine("one two three"), ScriptedEngine("one")) as (driver, screen):
        columns = await ended(driver, screen)
        assert all(column.reply.scored == len(column.reply.tokens) for column in columns.columns)
        first, second = columns.columns
        assert first.reply.mean_logprob is not None and second.reply.mean_logprob is not None
        assert first.reply.mean_logprob < second.reply.mean_logprob
        assert [column.best for column in columns.columns] == [False, True]
        await driver.press("r")
        assert columns.order == [1, 0]


async def test_a_model_s_name_comes_before_its_mean() -> None:
    async with comparing(*(ScriptedEngine("one two") for _ in range(3))) as (driver, screen):
        columns = await ended(driver, screen)
        await driver.pilot.pause()
        assert columns.columns[1].render_line(0).text.startswith(" 2 a-model-with-a…")
        await driver.pilot.resize_terminal(200, 24)
        await driver.pilot.pause()
        assert columns.columns[1].render_line(0).text.startswith(" 2 −1.04 a-model-with-a-long-name-2")


async def test_the_heat_of_an_answer_grows_with_it_and_leads_back_to_the_comparison() -> None:
    slow = ScriptedEngine("one two three " * 20, delay=0.01)
    async with comparing(slow, ScriptedEngine("one")) as (driver, screen):
        await driver.press("f5")
        await driver.until(lambda: screen.columns and screen.columns.columns[0].reply.tokens, "some text")
        await driver.press("h")
        await driver.until(lambda: isinstance(driver.app.screen, HeatScreen))
        assert isinstance(heat := driver.app.screen, HeatScreen)
        await driver.until(lambda: not heat.growing() and len(heat.heat.tokens) == len(heat.tokens), "the heat to end")
        assert "".join(token.text for token in heat.heat.tokens) == slow.text
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is screen)


async def test_an_answer_without_a_token_has_no_heat() -> None:
    broken = ScriptedEngine(fail_after=0)
    async with comparing(broken, ScriptedEngine("one")) as (driver, screen):
        await ended(driver, screen)
        await driver.press("h")
        assert driver.app.screen is screen
        assert "a-model-with-a-long-name-1 has written nothing yet." in driver.toasts


async def test_what_a_model_thinks_is_no_part_of_its_answer() -> None:
    thoughtful = ScriptedEngine("<think>\nTwo or three?\n</think>\n\nThree.", can_chat=True)
    async with comparing(thoughtful, ScriptedEngine("one", can_chat=True)) as (driver, screen):
        columns = await ended(driver, screen)
        assert columns.columns[0].reply.text.strip() == "Three."
        assert "Two or three" not in driver.picture


async def test_every_model_has_a_tab_on_a_narrow_screen() -> None:
    async with comparing(*(ScriptedEngine("one two") for _ in range(4)), size=(40, 24)) as (driver, screen):
        columns = await ended(driver, screen)
        await driver.pilot.pause()
        assert columns.tabbed
        bar = columns.bar.render_line(0).text
        assert [number for number in "1234" if f" {number}" in bar] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("n", [3, 9])
async def test_every_answer_has_a_tab_on_a_narrow_screen(n: int) -> None:
    async with running(ScriptedEngine("one two", can_chat=True), size=(40, 24)) as driver:
        await driver.type("a")
        await driver.pane.several(n)
        await driver.until(lambda: driver.pane.columns and not driver.writing, "the answers")
        await driver.pilot.pause()
        assert (columns := driver.pane.columns) and columns.tabbed
        bar = columns.bar.render_line(0).text
        assert all(f" {number}" in bar for number in range(1, n + 1))
        assert ("−" in bar) == (n == 3)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (200, 60)])
async def test_models_can_be_chosen_on_any_screen(size: tuple[int, int]) -> None:
    async with comparing(ScriptedEngine("one"), ScriptedEngine("one"), size=size) as (driver, screen):
        for widget in (screen.picker, screen.tokens, screen.order):
            widget.focus()
            await driver.pilot.pause()
            seen = screen.region.intersection(widget.region)
            assert seen.height >= min(3, widget.size.height)
        screen.picker.focus()
        await driver.pilot.pause()
        await driver.until(lambda: "a-model-with-a-long-name-2" in driver.picture)


async def test_the_cursor_stays_in_sight_when_the_screen_gets_lower() -> None:
    async with comparing(*(ScriptedEngine("one") for _ in range(9)), size=(80, 40)) as (driver, screen):
        screen.picker.focus()
        await driver.press(*["down"] * 8)
        await driver.pilot.resize_terminal(80, 18)
        await driver.pilot.pause()
        await driver.until(lambda: "a-model-with-a-long-name-9" in driver.picture)
