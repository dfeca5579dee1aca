"""What was typed is kept in passing, and there at the next start."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from chatapp.history import History
from chatapp.text.errors import InputError
from chatapp.tui.chat import conversations
from chatapp.workspace import Opened
from support.patience import PATIENCE
from support.screen_driver import Driver, ask, beginning, running, started
from support.scripted_engine import ScriptedEngine


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is typed is kept at once."""
    monkeypatch.setattr(conversations, "KEEPING", 0.05)
    yield


def drafts(driver: Driver) -> list[str]:
    """The drafts on the disk, by the conversations' numbers."""
    assert driver.screen.history
    return [text for number in range(1, 4) if (text := driver.screen.history.draft(number))]


# Killed: the next screen begins while the one before has not left


async def test_a_text_is_there_after_a_kill_and_who_wrote_what_of_it(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with running(ScriptedEngine(" two"), history=path) as driver:
        await driver.type("one")
        await driver.until(lambda: drafts(driver) == ["one"])
        async with running(ScriptedEngine(), history=path) as next_one:
            assert next_one.text == "one" and not next_one.said
        await driver.press("ctrl+j")
        await driver.answered()
        await driver.until(lambda: drafts(driver) == [])
        await driver.type(" three")
        await driver.until(lambda: drafts(driver) == ["one two three"])
        async with running(ScriptedEngine(), history=path) as next_one:
            assert next_one.text == "one two three" and next_one.written_by_model() == " two"
        assert len(driver.said) == 2  # no moment of typing is a version


async def test_a_text_that_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with running(ScriptedEngine(), history=path) as driver:
        await driver.type("one")
        await driver.until(lambda: drafts(driver) == ["one"])
        await driver.press("ctrl+u")
    async with running(ScriptedEngine(), history=path) as driver:
        assert driver.text == ""


async def test_a_message_that_waits_is_there_after_a_kill_and_so_is_the_draft(tmp_path: Path) -> None:
    path, engine = tmp_path / "history.db", ScriptedEngine("Because.", can_chat=True, pause_after=1)
    async with running(engine, history=path) as driver:
        await driver.type("why?\n")
        await driver.wrote(1)
        await driver.type("and now?\nso")
        await driver.until(lambda: drafts(driver) == ["and now?\nso"])
        async with running(ScriptedEngine(can_chat=True), history=path) as next_one:
            assert next_one.pane.prompt.text == "and now?\nso"


async def test_a_message_that_waited_and_is_answered_is_no_draft(tmp_path: Path) -> None:
    engine = ScriptedEngine("Because.", can_chat=True, pause_after=1)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("why?\n")
        await driver.wrote(1)
        await driver.type("and now?\n")
        await driver.until(lambda: drafts(driver) == ["and now?"])
        engine.pause_after = None
        engine.go.set()
        await driver.until(lambda: len(driver.said) == 4 and drafts(driver) == [])


async def test_a_message_that_was_sent_is_no_draft(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await driver.type("why")
        await driver.until(lambda: drafts(driver) == ["why"])
        await driver.type("?\n")
        await driver.answered()
        await driver.until(lambda: drafts(driver) == [])
        assert driver.screen.history and len(driver.screen.history.list()) == 1


async def test_a_draft_that_was_left_for_another_conversation_is_in_the_list(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await driver.type("half a question")
        await driver.until(lambda: drafts(driver) == ["half a question"])
        await driver.press("ctrl+n")
        await driver.type("why?\n")
        await driver.answered()
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        assert len(driver.said) == 2
        await driver.press("ctrl+b")
        await driver.until(lambda: "half a question" in driver.picture)
        await driver.press("down", "enter")
        await driver.until(lambda: driver.pane.prompt.text == "half a question")


async def test_a_draft_is_deleted_like_a_conversation_also_right_after_its_text_was(tmp_path: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        await driver.type("half a question")
        await driver.until(lambda: drafts(driver) == ["half a question"])
        await driver.press("ctrl+b")
        await driver.until(lambda: driver.screen.sidebar and driver.screen.sidebar.has_focus)
        before = driver.pane
        before.prompt.load_text("")
        await driver.press("d")
        await driver.until(lambda: driver.toasts == ["The draft is deleted. u in the list brings it back."])
        assert driver.pane is not before and driver.pane in driver.screen.panes and before not in driver.screen.panes
        await driver.press("ctrl+b")
        await driver.type("why?\n")
        await driver.answered()
        assert driver.screen.history and [one.title for one in driver.screen.history.list()] == ["why?"]


# Left


async def test_what_was_typed_where_no_model_opens_is_there_at_the_next_start(tmp_path: Path) -> None:
    def fail(report: object, warn: object) -> Opened:
        raise InputError("broken is damaged: model.safetensors ends too soon")

    async with started(beginning(fail, "broken", history=tmp_path / "history.db"), model="broken") as driver:
        await driver.until(lambda: driver.state == "✗ no model" and driver.pane.dialogue)
        await driver.type("a long question")
    async with running(ScriptedEngine("Yes.", can_chat=True), history=tmp_path / "history.db") as driver:
        assert driver.pane.prompt.text == "a long question"


@pytest.mark.parametrize(("can_chat", "key"), [(True, ""), (True, "\n"), (False, "")])
async def test_what_was_typed_before_the_history_was_open_is_there_too(
    tmp_path: Path, can_chat: bool, key: str
) -> None:
    engine, path, go = ScriptedEngine(can_chat=can_chat), tmp_path / "history.db", Event()
    start = beginning(engine, "chatty" if can_chat else "builtin", history=path)

    def open_slowly() -> History:
        go.wait(PATIENCE)
        return History(path)

    start.opens_history = open_slowly
    async with started(start) as driver:
        await driver.type(f"a long question{key}")
    start.opens_history = lambda: History(path)
    assert driver.screen.save_or_rescue() == "" and driver.screen.history
    driver.screen.history.close()
    go.set()
    async with running(engine, history=path) as next_one:
        assert next_one.pane.box.text == "a long question"


@pytest.mark.parametrize("keys", [(), ("ctrl+n",)])
async def test_what_was_sent_before_the_history_was_open_is_answered(tmp_path: Path, keys: tuple[str, ...]) -> None:
    engine, path, go = ScriptedEngine("Yes.", can_chat=True), tmp_path / "history.db", Event()
    async with running(engine, history=path) as driver:
        await ask(driver, "before")
    start = beginning(engine, "chatty", history=path)

    def open_slowly() -> History:
        go.wait(PATIENCE)
        return History(path)

    start.opens_history = open_slowly
    async with started(start) as driver:
        await driver.type("typed ahead\n")
        first = driver.pane
        await driver.press(*keys)
        go.set()
        await driver.until(lambda: first.dialogue and [one.text for one in first.dialogue.branch()][-1:] == ["Yes."])
        assert first.dialogue and [one.text for one in first.dialogue.branch()] == ["typed ahead", "Yes."]
        assert (driver.pane is first) == (not keys)


async def test_a_draft_moves_to_the_kind_of_its_model(tmp_path: Path) -> None:
    async with running(ScriptedEngine(can_chat=True), history=tmp_path / "history.db") as driver:
        await driver.type("def f():")
        await driver.until(lambda: drafts(driver) == ["def f():"])
        await driver.pane.change_kind("completion")
        await driver.until(lambda: driver.text == "def f():" and drafts(driver) == ["def f():"])
        last = driver.screen.history and driver.screen.history.last(drafts=True)
        assert last and last.kind == "completion"
