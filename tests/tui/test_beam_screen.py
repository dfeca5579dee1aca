"""The tree of a beam search on the screen: it grows, is walked by the arrows, and any text of it is taken."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Semaphore

import numpy as np
import pytest

from chatapp.generation.engine import Engine
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.tui.app import ChatApp
from chatapp.tui.insight.beams import BeamScreen
from chatapp.workspace import Opened
from support.patience import PATIENCE
from support.screen_driver import Driver, beginning, running
from support.scripted_session import hashed, make_engine, write_tokenizer


class Gate:
    """Lets a search take so many steps, and no more."""

    def __init__(self) -> None:
        self.steps = Semaphore(0)
        self.calls = 0

    def __call__(self, tokens: Sequence[int], logits: np.ndarray) -> None:
        self.calls += 1
        if self.calls % 3 == 2:  # the first of three rows; the prompt is one row
            assert self.steps.acquire(timeout=PATIENCE)
        hashed(tokens, logits)

    def let(self, steps: int) -> None:
        for _ in range(steps):
            self.steps.release()


STANDS = 11
"""Calls after which a search waits that may take three steps: of the prompt, of three rows a step, and the next."""


@asynccontextmanager
async def searching(tmp_path: Path, gate: Gate) -> AsyncIterator[Driver]:
    """A text that three beams go on with, up to eight tokens, its tree open: it grows no more until it is let."""
    engine: Engine = make_engine(Tokenizer(write_tokenizer(tmp_path / "tokenizer")), gate)[0]
    opened = Opened(engine, "scripted", 1, 0.1)
    app = ChatApp(beginning(lambda progress, warn: opened, history=tmp_path / "history.db"))
    async with app.run_test(size=(80, 24)) as pilot:
        driver = Driver(app, pilot)
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue, "the model")
        for option in ("num_beams 3", "max_tokens 8"):
            await driver.type(f"/set parameter {option}\n")
        await driver.type("def add(")
        await driver.press("f5")
        gate.let(3)
        await driver.until(lambda: driver.figures.doing == "searching", "the search")
        await driver.press("f10")
        await driver.until(lambda: isinstance(driver.app.screen, BeamScreen), "the tree")
        screen = tree(driver)
        await driver.until(lambda: gate.calls == STANDS, "three steps")
        await driver.until(lambda: screen.beams.seen >= 2 * len(screen.search.beams), "them to be shown")
        yield driver
        gate.let(100)


def tree(driver: Driver) -> BeamScreen:
    assert isinstance(screen := driver.app.screen, BeamScreen)
    return screen


def path(screen: BeamScreen) -> str:
    assert (beam := screen.beams.marked)
    return "".join(one.text for one in beam.path)


async def test_it_grows_while_the_arrows_walk_it(tmp_path: Path) -> None:
    gate = Gate()
    async with searching(tmp_path, gate) as driver:
        screen = tree(driver)
        before = len(screen.search.beams)
        await driver.press("home")
        first = path(screen)
        await driver.press("down")
        assert path(screen) != first
        await driver.press("up")
        assert path(screen) == first
        marked = screen.beams.first
        gate.let(2)
        await driver.until(lambda: len(screen.search.beams) > before, "more of the tree")
        await driver.until(lambda: screen.beams.seen >= 2 * len(screen.search.beams), "it to be shown")
        assert screen.beams.first is marked  # growth moves no cursor
        assert "searching" in str(screen.heading.render())


async def test_a_text_is_taken_while_the_search_goes_on(tmp_path: Path) -> None:
    gate = Gate()
    async with searching(tmp_path, gate) as driver:
        screen = tree(driver)
        await driver.press("end")
        wanted = path(screen)
        await driver.press("enter")
        gate.let(1)
        await driver.until(lambda: not driver.writing, "the search to end")
        await driver.until(lambda: driver.text == "def add(" + wanted, f"{wanted!r} in the text")
        assert driver.said == [("user", "def add("), ("assistant", wanted)]
        assert "stopped" in driver.state


async def test_escape_on_the_page_keeps_the_best_text(tmp_path: Path) -> None:
    gate = Gate()
    async with searching(tmp_path, gate) as driver:
        screen = tree(driver)
        await driver.press("escape")
        assert driver.app.screen is driver.screen
        await driver.press("escape")
        gate.let(1)
        await driver.until(lambda: len(driver.said) == 2 and not driver.writing, "the search to end")
        best = "".join(one.text for one in screen.search.rank()[0].path)
        await driver.until(lambda: driver.text == "def add(" + best, f"{best!r} in the text")


async def test_after_the_search_another_text_of_it_is_another_version(tmp_path: Path) -> None:
    gate = Gate()
    async with searching(tmp_path, gate) as driver:
        screen = tree(driver)
        gate.let(100)
        await driver.until(lambda: not driver.writing, "the search to end")
        await driver.until(lambda: "ended" in str(screen.heading.render()), "that to be told")
        answer = driver.said[-1][1]
        await driver.press("home")
        await driver.press("p")  # without what was given up
        assert all(line.last.hopeful for line in screen.beams.rows)
        await driver.press("p")
        await driver.press("end")
        while answer.startswith(path(screen)):
            await driver.press("up")
        begun = path(screen)
        await driver.press("enter")
        await driver.until(lambda: driver.app.screen is driver.screen, "the page")
        await driver.answered()
        await driver.until(lambda: driver.said[-1][1] != answer and not driver.writing, "another version")
        assert driver.said[-1][1].startswith(begun)


@pytest.mark.parametrize("width", [50, 100])
async def test_deep_trees_are_drawn_in_what_room_there_is(tmp_path: Path, width: int) -> None:
    gate = Gate()
    async with searching(tmp_path, gate) as driver:
        await driver.pilot.resize_terminal(width, 24)
        screen = tree(driver)
        gate.let(100)
        await driver.until(lambda: not driver.writing, "the search to end")
        await driver.until(lambda: "ended" in str(screen.heading.render()), "that to be told")
        for y in range(len(screen.beams.rows)):
            strip = screen.beams.render_line(y)
            assert strip.cell_length == screen.beams.scrollable_content_region.width
        assert any("✓" in screen.beams.render_line(y).text for y in range(len(screen.beams.rows)))
        assert any("✗" in screen.beams.render_line(y).text for y in range(len(screen.beams.rows)))


async def test_without_a_search_it_says_how_one_begins(tmp_path: Path) -> None:
    from support.scripted_engine import ScriptedEngine

    async with running(ScriptedEngine(), history=tmp_path / "history.db") as driver:
        await driver.press("f10")
        await driver.until(lambda: driver.app._notifications, "a word on how one begins")
        assert "num_beams" in next(iter(driver.app._notifications)).message
