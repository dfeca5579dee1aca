"""Small terminals: less is shown, and what is shown is whole."""

import re
from pathlib import Path

import pytest

from chatapp.tui.insight.latencies import LatencyScreen
from chatapp.tui.insight.table import TokenTable
from support import models_page
from support.screen_driver import Driver, ask, running
from support.scripted_engine import ScriptedEngine


async def measured(driver: Driver) -> TokenTable:
    """The latencies of an answer."""
    await driver.press("tab", "ctrl+j")
    await driver.answered()
    await driver.press("ctrl+l")
    await driver.until(lambda: isinstance(driver.app.screen, LatencyScreen))
    await driver.pilot.pause()
    return driver.app.screen.query_one(TokenTable)


@pytest.mark.parametrize("width", [30, 40, 45, 50, 56, 80])
async def test_no_figure_of_a_token_is_cut(width: int) -> None:
    async with running(ScriptedEngine("one two three"), size=(width, 24)) as driver:
        table = await measured(driver)
        heads = table.render_line(0).text.split()
        row = table.render_line(2).text
        assert heads[1:4] == ["#", "token", "latency"]
        assert len(re.findall(r"[\d.]+ %", row)) == ("probability" in heads)
        assert len(re.findall(r"[\d.]+ ms", row)) == 1 + ("start" in heads)
        assert ("probability" in heads) == (width >= 43)
        assert ("start" in heads) == (width >= 55)


async def test_tokens_are_listed_on_a_low_screen() -> None:
    async with running(ScriptedEngine("one two three"), size=(40, 10)) as driver:
        table = await measured(driver)
        assert table.size.height >= 2
        await driver.until(lambda: " 1  one" in driver.picture)


async def test_the_welcome_leaves_the_figures_and_the_edge_alone() -> None:
    async with running(ScriptedEngine(), size=(40, 10)) as driver:
        await driver.until(lambda: "● ready" in driver.picture)
        await driver.pilot.pause()
        *page, figures, keys = driver.picture.splitlines()
        assert figures.startswith(" ● ready")
        assert any("continue this example, or…" in line for line in page)
        assert "^F Fill gap" in keys


async def test_what_is_found_and_what_can_be_done_is_seen_on_a_low_screen(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db", size=(40, 12)) as driver:
        await ask(driver, "whales")
        await driver.press("f3", *"whales")
        await driver.until(lambda: "1 match" in driver.picture and "│   whales" in driver.picture)
        await driver.press("escape", "f7")
        await driver.until(lambda: "and you keep one" in " ".join(driver.picture.replace("│", " ").split()))


async def test_a_terminal_that_is_squeezed_to_next_to_nothing_takes_keys_and_is_large_again(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await ask(driver, "a")
        await driver.press("ctrl+b")
        for size in ((5, 20), (80, 3), (1, 1), (80, 24)):
            await driver.pilot.resize_terminal(*size)
            await driver.press("pagedown", "pageup")
        await driver.until(lambda: "1 conversation" in driver.picture)


@pytest.mark.parametrize(("height", "listed", "told"), [(8, 3, 3), (12, 5, 5), (15, 7, 6), (24, 13, 9)])
async def test_models_are_listed_on_a_low_screen(home: Path, height: int, listed: int, told: int) -> None:
    async with models_page.running(home, size=(80, height)) as driver:
        assert driver.models.listing.size.height == listed
        assert driver.models.detail.size.height == told
        assert driver.shown("builtin")


async def test_the_page_about_a_model_is_as_high_as_the_screen_where_it_is_alone_or_beside(home: Path) -> None:
    async with models_page.running(home, size=(80, 24)) as driver:
        await driver.press("i")
        await driver.until(lambda: driver.models.detail.size.height == 22)
    async with models_page.running(home, size=(120, 24)) as driver:
        assert driver.models.detail.size.height == driver.models.listing.outer_size.height == 22
