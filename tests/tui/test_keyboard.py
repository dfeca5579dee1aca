"""Keys go where their user sees them go, however fast they are typed."""

from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from chatapp.history import History
from chatapp.tui.chat.search import SearchScreen
from chatapp.tui.chat.sidebar import Sidebar
from chatapp.tui.models.screen import ModelsScreen
from support.kept_conversations import said
from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine
from support.tmux import DRIVER, Terminal

CHARACTERS = {"enter": "\r", "escape": None, "down": None}
START = ["-m", "chatapp", "chat", "missing"]


async def at_once(driver: Driver, *keys: str) -> None:
    """Send keys and words in one write."""
    for one in keys:
        named = len(one) > 1 and (one in CHARACTERS or one.startswith(("ctrl+", "f")) and " " not in one)
        for key in [one] if named else one:
            driver.app.post_message(events.Key(key, CHARACTERS.get(key) if named else key))
    await driver.pilot.pause()


async def begin(driver: Driver, *questions: str) -> None:
    """A conversation for each question."""
    for question in questions:
        await driver.press("ctrl+n")
        await driver.type(f"{question}\n")
        await driver.until(lambda: len(driver.said) == 2 and not driver.writing)


async def test_a_message_typed_after_new_goes_into_the_new_conversation(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    async with running(ScriptedEngine("Yes.", can_chat=True), history=history) as driver:
        await begin(driver, "one")
        await at_once(driver, "ctrl+n", "two", "enter")
        await driver.until(lambda: [text for _, text in driver.said] == ["two", "Yes."] and not driver.writing)
        await at_once(driver, "/clear", "enter", "three", "enter")
        await driver.until(lambda: [text for _, text in driver.said] == ["three", "Yes."] and not driver.writing)
    assert [said(history, number)[0][1] for number in (1, 2, 3)] == ["one", "two", "three"]
    assert [len(said(history, number)) for number in (1, 2, 3)] == [2, 2, 2]


async def test_words_typed_after_a_conversation_was_opened_delete_none(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    async with running(ScriptedEngine("Yes.", can_chat=True), history=history) as driver:
        await begin(driver, "one", "two", "three")
        await driver.press("ctrl+b")
        await driver.until(lambda: isinstance(driver.app.focused, Sidebar))
        await at_once(driver, "down", "enter", "dude")
        await driver.until(lambda: driver.pane.prompt.text == "dude")
        assert driver.said[0][1] == "two"
        assert driver.screen.history and len(driver.screen.history.list()) == 3
        assert not [toast for toast in driver.toasts if "deleted" in toast]


async def test_what_is_deleted_and_brought_back_in_one_write_is_there(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await begin(driver, "one", "two")
        await driver.press("ctrl+b")
        await driver.until(lambda: isinstance(driver.app.focused, Sidebar))
        await at_once(driver, "d", "u", "ctrl+b", "more")
        await driver.until(lambda: driver.pane.prompt.text == "more")
        assert driver.screen.history and len(driver.screen.history.list()) == 2


async def test_what_is_typed_after_a_place_was_found_is_typed_there(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await begin(driver, "whales", "two")
        await at_once(driver, "f3", "whales")
        await driver.until(lambda: isinstance(driver.app.screen, SearchScreen) and driver.app.screen.found)
        assert driver.app.screen.query_one(Input).value == "whales"
        await at_once(driver, "enter", "escape", "and?")  # it is the place that has the focus
        await driver.until(lambda: driver.pane.prompt.text == "and?")
        assert driver.said[0][1] == "whales"


async def test_what_is_typed_after_a_fork_is_typed_there(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await begin(driver, "one")
        before = driver.pane
        await driver.until(lambda: len(before.chat_page.branch) == 2)
        driver.pane.chat_page.focus_on(before.chat_page.branch[1].id)
        await driver.until(lambda: not driver.pane.prompt.has_focus)
        await at_once(driver, "f", "fork it")
        await driver.until(lambda: driver.pane is not before and driver.pane.prompt.text == "fork it")
        assert not before.prompt.text


async def test_what_is_typed_after_a_model_was_chosen_is_typed_in_the_prompt(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await driver.press("ctrl+o")
        await driver.until(lambda: isinstance(driver.app.screen, ModelsScreen))
        driver.app.call_later(driver.app.screen.dismiss, "another")
        await at_once(driver, "one", "enter")
        await driver.until(lambda: [text for _, text in driver.said] == ["one", "Yes."])
        assert driver.pane.dialogue and driver.pane.dialogue.branch()[1].model == "another"


async def test_what_is_typed_after_a_dialog_was_closed_is_typed_in_the_prompt(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await begin(driver, "one")
        for opening in ("f1", "f2", "f3", "f7", "ctrl+p", "ctrl+o", "ctrl+t", "ctrl+l", "ctrl+s", "ctrl+b"):
            await at_once(driver, opening, "escape", "a", opening, "escape", "b")
            await driver.until(lambda: driver.pane.prompt.text == "ab", f"what is typed after {opening}")
            driver.pane.prompt.draft = ""


async def test_several_answers_are_kept_and_the_next_question_asked_in_one_write(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await at_once(driver, "one", "f7", "2")
        await driver.until(lambda: driver.pane.columns and not driver.writing)
        await at_once(driver, "enter", "two", "enter")
        await driver.until(lambda: len(driver.said) == 4 and not driver.writing)
        assert driver.said[2] == ("user", "two")


def test_in_a_real_terminal_keys_of_one_write_go_where_one_sees_them_go(tmp_path: Path) -> None:
    home = tmp_path / "user"
    with Terminal(DRIVER, "chat", "--home", home, "--delay", "0") as terminal:
        terminal.wait_for("● ready")
        terminal.press("older", "Enter")
        terminal.wait_for("● done")
        terminal.press("C-n", "second", "Enter")
        terminal.wait_for("second", "● done", gone="older")
        terminal.press("C-b", "Down", "Enter", "dude")
        terminal.wait_for("█  dude")
        terminal.press("C-q")
        assert terminal.left() == 0
    assert [len(said(home / "history.db", number)) for number in (1, 2)] == [2, 2]
    with History(home / "history.db") as history:
        assert [one.title for one in history.list()] == ["second", "older"]
        last = history.last()
        assert last and last.title == "older"  # which was shown last


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_what_is_typed_before_the_first_frame_lands_in_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setenv("CHATAPP_HOME", str(tmp_path))
    with Terminal(*START) as terminal:
        terminal.tmux("run-shell", f"sleep {seconds}")
        terminal.press("a question", "Enter", "and another")
        screen = terminal.wait_for("✗ no model", "█  a question", "█  and another")
        assert screen.count("a question") == 1
        terminal.press("C-q")
        assert terminal.left() == 0
