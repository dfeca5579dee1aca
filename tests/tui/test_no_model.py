"""Where there is no model to answer, the screen says at once, and goes on saying, why."""

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from chatapp.text.errors import InputError
from chatapp.workspace import Opened
from support.patience import PATIENCE
from support.screen_driver import ask, beginning, started
from support.scripted_engine import Open, ScriptedEngine, opener

CHATS, CONTINUES = ScriptedEngine("Because.", can_chat=True), ScriptedEngine("and so on")


def open_by_name(name: str) -> Open:
    """A model that chats, one that continues texts, and one that cannot be opened."""
    if name == "broken":

        def fail(report: object, warn: object) -> Opened:
            raise InputError("broken is damaged: model.safetensors ends too soon")

        return fail
    return opener(CONTINUES if name == "base" else CHATS)


async def test_the_reason_stands_below_until_another_model_is_chosen(tmp_path: Path) -> None:
    start = beginning(CHATS, "broken", history=tmp_path / "history.db")
    start.opens = open_by_name
    async with started(start) as driver:
        await driver.until(lambda: driver.state == "✗ no model")
        reason = "broken is damaged: model.safetensors ends too soon"
        await driver.until(lambda: driver.picture.splitlines()[-2].strip() == reason)
        await driver.press("ctrl+s")
        assert driver.toasts[-1] == "broken is damaged: model.safetensors ends too soon"
        await driver.screen.models.use("chatty")
        await driver.until(lambda: driver.state == "● ready")
        assert driver.pane.status.reason == ""


@pytest.mark.parametrize(
    ("other", "reason"),
    [("base", "and cannot continue a conversation; to start a new one: /clear"), ("broken", "is damaged")],
)
async def test_a_model_that_cannot_take_over_is_refused_and_the_one_before_stays(
    tmp_path: Path, other: str, reason: str
) -> None:
    start = beginning(CHATS, "chatty", history=tmp_path / "history.db")
    start.opens = open_by_name
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
        await ask(driver, "why?")
        await driver.screen.models.use(other)
        await driver.until(lambda: driver.state == "● ready")
        await driver.until(lambda: reason in driver.toasts[-1] and "chatty stays" in driver.picture)
        await ask(driver, "and now?")
        assert driver.pane.dialogue and driver.pane.dialogue.setup.model == driver.pane.heading.model == "chatty"
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened, "the model that answered before")
        assert driver.pane.choice.model == "chatty" and len(driver.said) == 4


async def test_what_waits_for_a_model_that_is_refused_comes_back(tmp_path: Path) -> None:
    start, go = beginning(CHATS, "chatty", history=tmp_path / "history.db"), Event()

    def slow(name: str) -> Open:
        def open_later(report: Callable[[str, float], None], warn: Callable[[str], object]) -> Opened:
            assert name == "chatty" or go.wait(PATIENCE)
            return open_by_name(name)(report, warn)

        return open_later

    start.opens = slow
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
        await ask(driver, "why?")
        await driver.screen.models.use("base")
        await driver.type("and now?\n")
        await driver.until(lambda: driver.pane.outbox.queue)
        await driver.screen.models.use("broken")
        go.set()
        await driver.until(lambda: driver.state == "● ready")
        assert driver.pane.prompt.text == "and now?" and driver.pane.choice.model == "chatty"


async def test_after_clear_the_model_that_was_refused_can_be_used(tmp_path: Path) -> None:
    start = beginning(CHATS, "chatty", history=tmp_path / "history.db")
    start.opens = open_by_name
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
        await ask(driver, "why?")
        await driver.press("ctrl+n")
        await driver.until(lambda: driver.state == "● ready" and not driver.said and driver.pane.dialogue)
        await driver.screen.models.use("base")
        await driver.until(lambda: driver.state == "● ready" and driver.pane.kind == "completion")
        assert driver.pane.dialogue and driver.pane.dialogue.setup.model == "base"
