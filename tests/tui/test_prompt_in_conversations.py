"""The prompt in a conversation: several answers to what is attached, and a disk that cannot be read."""

from collections.abc import Iterable
from pathlib import Path
from threading import Event

import pytest

from chatapp.conversation import attachments
from chatapp.conversation.attachments import Attachment
from chatapp.history import History, HistoryError
from support.patience import PATIENCE
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine


async def test_several_answers_are_given_to_what_is_attached_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("Whales sing.\n", encoding="utf-8")
    engine = ScriptedEngine(texts=("Whales.", "They do."), can_chat=True)
    async with running(engine) as driver:
        await driver.type("Who sings? @notes.txt")
        await driver.press("f7", "2")
        await driver.until(lambda: engine.asked and not driver.writing)
        assert "Whales sing.\n" in engine.chats[0][-1].text
        assert driver.pane.columns
        await driver.press("enter")
        await driver.until(lambda: not driver.pane.columns)
        assert driver.said[1] == ("assistant", "Whales.")


async def test_what_was_asked_before_cannot_be_read_and_the_prompt_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(history: History, limit: int = 1000) -> list[str]:
        raise HistoryError("the database is damaged")

    monkeypatch.setattr(History, "prompts", damaged)
    async with running(ScriptedEngine("Because.", can_chat=True), history=tmp_path / "history.db") as driver:
        await driver.press("up")
        await driver.type("Why?")
        await driver.until(lambda: driver.pane.prompt.past is None, "what was asked before to be read")
        await driver.press("enter")
        await driver.answered()
        assert driver.said == [("user", "Why?"), ("assistant", "Because.")]


async def test_a_message_whose_attachments_are_still_read_is_kept_when_its_user_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("Whales sing.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    go, attach = Event(), attachments.attach

    def slow(text: str, root: Path, known: Iterable[str] = ()) -> tuple[Attachment, ...]:
        go.wait(PATIENCE)
        return attach(text, root, known)

    engine = ScriptedEngine("Because.", can_chat=True)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("Why?\n")
        await driver.answered()
        monkeypatch.setattr(attachments, "attach", slow)
        await driver.type("Who sings? @notes.txt\n")
        await driver.until(lambda: driver.pane.prompt.sending and not driver.pane.prompt.text)
        driver.pane.page.keep(driver.pane.outbox.unsent)
        assert driver.screen.history and driver.pane.dialogue and driver.pane.dialogue.conversation
        assert driver.screen.history.draft(driver.pane.dialogue.conversation) == "Who sings? @notes.txt"
        go.set()
        await driver.until(lambda: len(driver.said) == 4 and not driver.writing)


async def test_page_keys_scroll_the_conversation_while_it_is_written_and_move_in_a_long_draft(tmp_path: Path) -> None:
    text = "".join(f"Number {number}.\n\n" for number in range(60))
    engine = ScriptedEngine(text, can_chat=True, pause_after=150)
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("count\n")
        await driver.wrote(150)
        page = driver.pane.page
        await driver.until(lambda: page.max_scroll_y > page.size.height, "two pages")
        await driver.press("pageup")
        await driver.until(lambda: page.max_scroll_y - page.scroll_y >= page.size.height - 1, "the page before")
        for _ in range(3):  # one more than reaches the end, which is followed again
            await driver.press("pagedown")
        engine.go.set()
        await driver.answered()
        await driver.until(lambda: "Number 59." in driver.picture)
        await driver.press("pageup")
        await driver.until(lambda: page.scroll_y < page.max_scroll_y)
        while page.scroll_y < page.max_scroll_y:
            await driver.press("pagedown")

        prompt = driver.pane.prompt
        prompt.text = "\n".join(map(str, range(40)))
        prompt.move_cursor((39, 0))
        await driver.until(lambda: prompt.virtual_size.height > prompt.size.height, "the box to be full")
        await driver.press("pageup")
        await driver.until(lambda: prompt.cursor_location[0] < 39, "the cursor to move")
        assert page.scroll_y == page.max_scroll_y
