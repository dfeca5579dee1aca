"""Where there is no model to answer, the screen says at once, and goes on saying, why."""

from pathlib import Path

from chatapp.text.errors import InputError
from chatapp.workspace import Opened
from support.screen_driver import beginning, started
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
        await driver.pilot.pause()
        assert driver.picture.splitlines()[-2].strip() == "broken is damaged: model.safetensors ends too soon"
        await driver.screen.models.use("chatty")
        await driver.until(lambda: driver.state == "● ready")
        assert driver.pane.status.reason == ""


async def test_a_model_that_cannot_go_on_with_a_conversation_is_told_before_anything_is_said(tmp_path: Path) -> None:
    start = beginning(CHATS, "chatty", history=tmp_path / "history.db")
    start.opens = open_by_name
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
        await driver.type("why?\n")
        await driver.answered()
        await driver.screen.models.use("base")
        await driver.until(lambda: driver.state == "✗ no model")
        assert "it cannot continue a conversation; use /clear first" in driver.toasts[-1]
        await driver.type("and now?\n")
        await driver.pilot.pause()
        assert driver.pane.prompt.text == "and now?" and len(driver.said) == 2
        await driver.screen.models.use("chatty")
        await driver.until(lambda: driver.state == "● ready")
        await driver.press("enter")
        await driver.until(lambda: len(driver.said) == 4 and not driver.pane.reply)


async def test_the_conversation_after_it_is_one_of_its_own_kind(tmp_path: Path) -> None:
    start = beginning(CHATS, "chatty", history=tmp_path / "history.db")
    start.opens = open_by_name
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
        await driver.type("why?\n")
        await driver.answered()
        await driver.screen.models.use("base")
        await driver.until(lambda: driver.state == "✗ no model")
        await driver.press("ctrl+n")
        await driver.until(lambda: driver.state == "● ready" and driver.pane.kind == "completion")
