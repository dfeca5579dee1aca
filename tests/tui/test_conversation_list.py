"""The list of conversations: all of them, their dates, the filter, forks, and what keys do meanwhile."""

import time
from datetime import datetime
from pathlib import Path

import pytest

from chatapp.history import History
from chatapp.history.history import name_fork
from chatapp.tui.chat.sidebar import PAGE, Sidebar, moment, named_day
from support.kept_conversations import greet
from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine

HOUR = 3600.0


def fill(path: Path, titles: list[str], apart: float = HOUR) -> None:
    """A conversation for each title, so many seconds apart, the last one the newest."""
    with History(path) as history:
        begin = time.time() - apart * len(titles)
        rows = [(title, begin + apart * place) for place, title in enumerate(titles)]
        with history._writing() as connection:
            connection.executemany(
                "INSERT INTO conversations (title, kind, model, created, updated, messages) "
                "VALUES (?, 'chat', 'qwen', ?2, ?2, 3)",
                rows,
            )


async def listed(driver: Driver) -> Sidebar:
    await driver.press("ctrl+b")
    await driver.until(lambda: driver.screen.sidebar and driver.screen.sidebar.rows)
    assert driver.screen.sidebar
    return driver.screen.sidebar


def titles(sidebar: Sidebar) -> list[str]:
    return [row.title for row in sidebar.rows if row.id]


def cursor_colour(sidebar: Sidebar) -> object:
    return sidebar.get_component_rich_style("option-list--option-highlighted").bgcolor


async def test_all_conversations_can_be_reached_however_many_and_the_first_come_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    fill(path, [f"topic {number}" for number in range(10_000)])
    async with running(ScriptedEngine(can_chat=True), history=path, resume=False) as driver:
        sidebar = await listed(driver)
        await driver.until(lambda: len(titles(sidebar)) == PAGE and "10,000 conversations" in driver.picture)
        await driver.press("pagedown")
        begun = time.perf_counter()
        while len(titles(sidebar)) == PAGE:
            await driver.press("pagedown")
            assert time.perf_counter() < begun + 100
        assert titles(sidebar)[: 2 * PAGE] == [f"topic {9_999 - place}" for place in range(2 * PAGE)]
        await driver.press("end")
        await driver.until(lambda: len(titles(sidebar)) == 10_000)
        await driver.until(lambda: "topic 0 " in driver.picture)
        await driver.press("slash")
        await driver.type("topic 5000")
        await driver.until(lambda: titles(sidebar) == ["topic 5000"])


async def test_what_is_typed_filters_the_titles_and_no_letter_is_a_key_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    fill(path, ["Größe und Gewicht", "a dude", "docker build", "another Dude"])
    async with running(ScriptedEngine(can_chat=True), history=path, resume=False) as driver:
        sidebar = await listed(driver)
        await driver.press("slash")
        await driver.type("dude")
        await driver.until(lambda: titles(sidebar) == ["another Dude", "a dude"])
        await driver.until(lambda: "/dude▏" in driver.picture)
        await driver.press("backspace", "delete", "ctrl+u")
        await driver.type("whale")
        await driver.until(lambda: not titles(sidebar) and "No title contains these words." in driver.picture)
        await driver.press("ctrl+u")
        await driver.type("GROSSE gew")
        await driver.until(lambda: titles(sidebar) == ["Größe und Gewicht"])
        await driver.press("escape")
        await driver.until(lambda: len(titles(sidebar)) == 4)
        assert sidebar.has_focus and driver.screen.history and len(driver.screen.history.list()) == 4
        await driver.press("slash")
        await driver.type("docker\n")
        await driver.until(lambda: driver.screen.pane.dialogue and driver.screen.pane.dialogue.conversation == 3)
        assert not sidebar.filtering and len(titles(sidebar)) == 4


async def test_the_cursor_is_told_from_the_conversation_that_is_shown_and_says_more(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    fill(path, ["one", "two"])
    async with running(ScriptedEngine(can_chat=True), history=path, size=(120, 30)) as driver:
        await driver.until(lambda: driver.pane.dialogue and driver.pane.dialogue.conversation == 2)
        sidebar = await listed(driver)
        await driver.press("down")
        await driver.until(lambda: "▸ two" in driver.picture and "3 messages · qwen" in driver.picture)
        assert sidebar.under_cursor == 1 and cursor_colour(sidebar) != sidebar.rich_style.bgcolor
        await driver.press("p")
        await driver.until(lambda: titles(sidebar) == ["one", "two"] and " Pinned" in driver.picture)
        assert sidebar.under_cursor == 1
        await driver.press("p")
        await driver.until(lambda: titles(sidebar) == ["two", "one"])
        driver.pane.prompt.focus()
        await driver.pilot.pause()
        assert cursor_colour(sidebar) == sidebar.rich_style.bgcolor


@pytest.mark.parametrize("apart", [1, 24 * HOUR], ids=["of one day", "of several days"])
async def test_what_was_deleted_is_told_until_the_next_key_and_comes_back(tmp_path: Path, apart: float) -> None:
    path = tmp_path / "history.db"
    fill(path, ["one", "two", "three"], apart)
    async with running(ScriptedEngine(can_chat=True), history=path, resume=False) as driver:
        sidebar = await listed(driver)
        await driver.press("down", "d")
        await driver.until(lambda: titles(sidebar) == ["three", "one"])
        await driver.until(lambda: "Deleted. u brings it back." in driver.picture)
        assert sidebar.under_cursor == 1, "the cursor stays at its place"
        await driver.press("u")
        await driver.until(lambda: titles(sidebar) == ["three", "two", "one"])
        assert "Deleted." not in driver.picture


def test_a_fork_is_told_from_its_origin_and_from_other_forks() -> None:
    with History(None) as history:
        origin = history.create(title="Why?")
        said = history.add(origin.id, "user", "why?", parent=None)
        first = history.fork(origin.id, [said])
        second = history.fork(first.id, history.messages(first.id))
        assert [first.title, second.title] == ["Why? (fork)", "Why? (fork 2)"]
    assert name_fork("a (fork 9)", set()) == "a (fork)"


@pytest.mark.parametrize(
    ("days", "day", "when"), [(0, "Today", "14:03"), (1, "Yesterday", "14:03"), (3, "Last seven days", "Thu")]
)
def test_a_row_says_when(days: int, day: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 22, 14, 3).timestamp()
    monkeypatch.setattr(time, "time", lambda: now)
    assert (named_day(now - days * 24 * HOUR), moment(now - days * 24 * HOUR)) == (day, when)
    assert (named_day(now - 300 * 24 * HOUR), moment(now - 300 * 24 * HOUR)) == ("January 2026", "26 Jan")


async def test_a_conversation_that_was_only_read_stays_at_its_day_and_is_opened_next(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    greet(path, "one", "two")
    with History(path) as history:
        before = history.list()
    async with running(ScriptedEngine(can_chat=True), history=path) as driver:
        await driver.screen.open_conversation(before[-1])
        driver.screen.keep()
    with History(path) as history:
        assert history.list() == before
        assert history.last(drafts=True) == before[-1]
