"""Disks that fail under the screen: it says so once, answers go on, and nothing that was said is lost."""

import sqlite3
from pathlib import Path

import pytest

from chatapp.conversation import files
from chatapp.history import History
from chatapp.tui.chat import conversations
from chatapp.tui.chat.sidebar import Sidebar
from support.screen_driver import Driver, beginning, running, started
from support.scripted_engine import ScriptedEngine


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "RETRY", 0.1)
    monkeypatch.setattr(conversations, "PATIENCE", 0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def engine() -> ScriptedEngine:
    return ScriptedEngine("Because.", can_chat=True)


async def ask(driver: Driver, *texts: str) -> None:
    for text in texts:
        before = len(driver.said)
        await driver.type(f"{text}\n")
        await driver.until(lambda: len(driver.said) == before + 2 and not driver.writing, text)  # noqa: B023


def kept(path: Path) -> list[list[str]]:
    """What another process finds: the messages of each conversation."""
    with History(path) as history:
        return [[message.text for message in history.messages(one.id)] for one in history.list()]


async def until_saved(driver: Driver, path: Path, expected: list[list[str]]) -> None:
    await driver.until(lambda: kept(path) == expected, f"{expected} on the disk")


class SmallDisk(History):
    """A history on a disk that can be full."""

    pages = 1_000_000

    def fill(self) -> None:
        with self._lock:
            self.pages = self.connection.execute("PRAGMA page_count").fetchone()[0]
            self.limit()

    def make_room(self) -> None:
        self.pages = 1_000_000
        self.limit()

    def limit(self) -> None:
        self.connection.execute(f"PRAGMA max_page_count = {self.pages}")

    def reopen(self) -> None:
        with self._lock:  # nobody writes before the new connection knows how small the disk is
            super().reopen()
            self.limit()


async def test_a_full_disk_is_told_once_and_when_there_is_room_everything_is_saved(path: Path) -> None:
    disk = SmallDisk(path)
    start = beginning(engine(), "chatty", history=path)
    start.opens_history = lambda: disk
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.screen.history)
        await ask(driver, "one")
        disk.fill()
        driver.pane.prompt.draft = "two " * 900  # more than fits into the pages that there are
        await ask(driver, "")
        await ask(driver, "three")
        before = disk.connection
        await driver.until(lambda: disk.connection is not before, "another attempt")
        assert len(driver.toasts) == 1
        assert driver.toasts[0].startswith("This conversation is not being saved: the disk is full")
        assert "free some space" in driver.toasts[0]
        assert len(kept(path)[0]) < 6
        disk.make_room()
        await until_saved(driver, path, [[text for _, text in driver.said]])
        again = "This conversation is being saved again, with everything written meanwhile"
        await driver.until(lambda: driver.toasts[-1:] == [again])
        assert len(driver.said) == 6


async def test_conversations_that_became_read_only_are_opened_anew(path: Path) -> None:
    async with running(engine(), history=path) as driver:
        await ask(driver, "one")
        assert driver.screen.history
        driver.screen.history.connection.execute("PRAGMA query_only = 1")  # as a file opened without permission
        await ask(driver, "two")
        assert "are read-only" in driver.toasts[0]
        await until_saved(driver, path, [["one", "Because.", "two", "Because."]])
        await ask(driver, "three")
        assert len(kept(path)[0]) == 6


async def test_another_program_that_holds_the_conversations_is_not_waited_for(path: Path) -> None:
    async with started(beginning(engine(), "chatty", history=path)) as driver:
        await driver.until(lambda: driver.pane.opened and driver.screen.history)
        await ask(driver, "one")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await ask(driver, "two")
        assert "another program has locked the conversations" in driver.toasts[0]
        await driver.press("ctrl+n")
        await ask(driver, "elsewhere")
        other.execute("COMMIT")
        other.close()
        await until_saved(driver, path, [["elsewhere", "Because."], ["one", "Because.", "two", "Because."]])


async def test_a_history_that_opens_late_gets_what_was_said_meanwhile(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with started(beginning(engine(), "chatty", history=path)) as driver:
        await driver.until(lambda: driver.pane.opened and driver.screen.lack)
        assert driver.toasts[0].startswith("Conversations are not being saved: another program has locked")
        await ask(driver, "one")
        other.execute("COMMIT")
        other.close()
        await until_saved(driver, path, [["one", "Because."]])
        await driver.until(lambda: len(driver.toasts) == 2, "to be told")
        assert driver.toasts[1] == "Conversations are being saved again, with everything written meanwhile."
        await ask(driver, "two")
        assert len(kept(path)[0]) == 4


def written_by_a_newer_chatapp(path: Path) -> str:
    with History(path) as history:
        history.connection.execute("PRAGMA user_version = 99")
    return "were written by a newer chatapp"


def damaged(path: Path) -> str:
    path.write_bytes(b"no database" * 1000)
    return "is damaged or not a database"


def another_programs(path: Path) -> str:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE addresses (name)")
    database.close()
    return "is another program's database"


@pytest.mark.parametrize("spoil", [written_by_a_newer_chatapp, damaged, another_programs])
async def test_without_a_history_answers_go_on_and_all_of_it_is_rescued(path: Path, spoil: object) -> None:
    assert callable(spoil)
    reason = spoil(path)
    before = path.read_bytes()
    start = beginning(engine(), "chatty", history=path)
    async with started(start, size=(120, 40)) as driver:
        await driver.until(lambda: driver.pane.opened and driver.screen.lack)
        assert len(driver.toasts) == 1 and reason in driver.toasts[0]
        await ask(driver, "one", "two")
        await driver.press("ctrl+n")
        await ask(driver, "three")
        await driver.press("ctrl+b")
        await driver.until(lambda: "▸ three" in driver.picture and "  one" in driver.picture, "both in the list")
        driver.screen.query_one(Sidebar).highlighted = 2
        await driver.press("enter")
        await driver.until(lambda: len(driver.said) == 4)
        told = driver.screen.save_or_rescue()
        assert told.startswith("2 conversations could not be saved") and reason in told
        assert len(driver.toasts) == 1
    assert path.read_bytes() == before
    (file,) = start.home.glob("unsaved-*.json")
    assert file.stat().st_mode & 0o077 == 0
    assert f"chatapp sessions import {file}" in told
    with History(None) as history:
        files.import_file(history, str(file))
        texts = [[message.text for message in history.messages(one.id)] for one in history.list()]
    assert sorted(texts) == [["one", "Because.", "two", "Because."], ["three", "Because."]]


async def test_without_a_history_what_was_not_sent_is_rescued(path: Path) -> None:
    damaged(path)
    start = beginning(engine(), "chatty", history=path)
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.screen.lack)
        await ask(driver, "one")
        await driver.type("and two")
        await driver.press("ctrl+n")
        await driver.type("a long question")
        driver.screen.keep()
        assert driver.screen.save_or_rescue().startswith("2 conversations could not be saved")
    (file,) = start.home.glob("unsaved-*.json")
    with History(None) as history:
        files.import_file(history, str(file))
        texts = [[message.text for message in history.messages(one.id)] for one in history.list()]
    assert sorted(texts) == [["a long question"], ["one", "Because.", "and two"]]


async def test_what_is_saved_is_not_rescued(path: Path) -> None:
    start = beginning(engine(), "chatty", history=path)
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.screen.history)
        await ask(driver, "one")
        assert driver.screen.save_or_rescue() == ""
    assert not list(start.home.glob("unsaved-*"))


async def test_what_is_not_to_be_kept_is_not_rescued(path: Path) -> None:
    start = beginning(engine(), "chatty")
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.screen.history_tried)
        await ask(driver, "one")
        assert driver.screen.save_or_rescue() == ""
    async with running(engine(), history=path) as driver:
        await driver.type("/set nohistory\n")
        await driver.until(lambda: not driver.pane.kept)
        await ask(driver, "secret")
        assert driver.screen.save_or_rescue() == ""
    assert "secret" not in str(kept(path))


async def test_where_no_file_can_be_written_it_is_said_that_words_are_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(path)
    start = beginning(engine(), "chatty", history=path)
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.screen.lack)
        await ask(driver, "one")
        start.home.joinpath("offer.json").unlink()
        start.home.rmdir()
        start.home.touch()  # a file, where a folder is wanted
        monkeypatch.setattr("tempfile.tempdir", str(start.home))
        told = driver.screen.save_or_rescue()
        assert "so it is lost: cannot write unsaved-" in told and f"in {start.home} or" in told


async def test_a_conversation_that_is_not_saved_stays_however_many_others_are_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "RETRY", 60)
    async with running(engine(), history=path) as driver:
        await ask(driver, "one")
        first = driver.pane
        assert driver.screen.history
        driver.screen.history.connection.execute("PRAGMA query_only = 1")
        await ask(driver, "two")
        for number in range(conversations.KEPT + 2):
            await driver.press("ctrl+n")
            await ask(driver, str(number))
        assert first in driver.screen.panes
        await driver.screen.show(first)
        assert len(driver.said) == 4


async def test_a_history_that_was_deleted_meanwhile_is_told_and_no_other_is_begun(path: Path) -> None:
    async with running(engine(), history=path) as driver:
        await ask(driver, "why?")
        path.unlink()
        await ask(driver, "and then?")
        assert len(driver.toasts) == 1
        assert "history.db was deleted, moved or replaced" in driver.toasts[0]
        assert driver.pane.dialogue and driver.pane.dialogue.failure
        assert not path.exists()


async def test_a_history_that_comes_back_to_its_place_has_all_that_was_said_meanwhile(path: Path) -> None:
    async with running(engine(), history=path) as driver:
        await ask(driver, "why?")
        path.rename(path.with_name("elsewhere.db"))
        await ask(driver, "and then?")
        path.with_name("elsewhere.db").rename(path)
        await until_saved(driver, path, [["why?", "Because.", "and then?", "Because."]])
