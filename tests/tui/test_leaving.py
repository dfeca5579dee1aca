"""Leaving waits for whatever a model still computes: a runtime at work would abort the interpreter's way out."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event

import pytest
from textual.widget import AwaitMount, Widget

from chatapp.generation import Options
from chatapp.tui.answers.comparison import ComparisonScreen
from chatapp.tui.chat.message import Answer
from chatapp.tui.engines import Choice
from chatapp.tui.sampling.drawer import SamplingDrawer
from chatapp.workspace import Opened
from support.kept_conversations import conversations, greet
from support.patience import PATIENCE
from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine


async def compare(driver: Driver, begun: Event, go: Event) -> None:
    """Begin a comparison, and leave its screen while a model is opened."""

    def open_model(choice: Choice, *tell: object) -> Opened:
        begun.set()
        go.wait(PATIENCE)
        return Opened(ScriptedEngine(), choice.model, 1, 0.1)

    chosen = [Choice("a"), Choice("b")]
    await driver.app.push_screen(ComparisonScreen(["a", "b"], [], open_model, prompt="x", chosen=chosen))
    await driver.press("f5")
    await driver.until(begun.is_set, "the comparison")
    driver.app.pop_screen()


async def preview(driver: Driver, begun: Event, go: Event) -> None:
    """Let the drawer read a prompt."""

    def look(options: Options) -> None:
        begun.set()
        go.wait(PATIENCE)

    await driver.screen.middle.mount(SamplingDrawer(Options(), {}, look=look))
    await driver.until(begun.is_set, "the preview")


@pytest.mark.parametrize("begin", [compare, preview])
async def test_leaving_knows_what_still_computes(begin: Callable[[Driver, Event, Event], Awaitable[None]]) -> None:
    begun, go = Event(), Event()
    async with running(ScriptedEngine()) as driver:
        await begin(driver, begun, go)
        assert not driver.screen.shut_down(0)
        go.set()
        assert driver.screen.shut_down(PATIENCE)


async def test_an_answer_that_begins_while_the_screen_closes_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(ScriptedEngine("Because.", can_chat=True)) as driver:
        page = driver.pane.chat_page
        mount = page.messages.mount

        def refuse(*widgets: Widget) -> AwaitMount:
            """What Textual does in a widget that is being closed."""
            return AwaitMount(page.messages, []) if isinstance(widgets[0], Answer) else mount(*widgets)

        monkeypatch.setattr(page.messages, "mount", refuse)
        await driver.type("why?\n")
        await driver.until(lambda: driver.pane.newest and driver.pane.newest.ended)
        assert not page.messages.query(Answer)


async def test_what_comes_while_the_screen_closes_is_no_crash() -> None:
    async with running(ScriptedEngine("Because.", can_chat=True)) as driver:
        driver.app.exit()
        driver.screen.call_later(driver.screen.action_sidebar)


async def test_what_was_open_last_is_opened_again_though_it_was_only_read(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    greet(path, "read", "newer")
    newer, read = conversations(path)
    async with running(ScriptedEngine(can_chat=True), history=path) as driver:
        assert driver.pane.number == newer.id
        await driver.screen.open_conversation(read)
    async with running(ScriptedEngine(can_chat=True), history=path) as driver:
        assert driver.pane.number == read.id
