"""Attachments and long pastes in the conversation: one line each, opened on demand; the question stays in sight."""

import time
from pathlib import Path

import pytest

from chatapp.conversation import attachments, shell
from chatapp.conversation.folding import parts
from chatapp.tui.chat.message import Question
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files, in the folder where the app begins."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    for number in range(30):
        (tmp_path / "src" / f"m{number}.py").write_text(f"number = {number}\n")
    (tmp_path / "notes.md").write_text("".join(f"line {number}\n" for number in range(12)) + "```\nfenced\n```\n")
    (tmp_path / "short.txt").write_text("one line\n")
    return tmp_path


def folded(text: str) -> list[str]:
    """The words as they are, and the labels of what is folded."""
    return [part.label or part.text for part in parts(text)]


def test_attachments_are_told_from_the_words_and_a_folder_is_one(folder: Path) -> None:
    text = "what is @src/ and @notes.md and @short.txt?"
    whole = attachments.message(text, attachments.attach(text, folder))
    assert folded(whole) == [text, "src/ · 30 files", "notes.md · 15 lines", "short.txt:\n```txt\none line\n```"]
    assert "\n\n".join(part.text for part in parts(whole)) == whole


def test_code_under_a_line_of_the_user_is_no_attachment(folder: Path) -> None:
    typed = f"Please review this code:\n```python\n{'x = 1' + chr(10) * 9}y\n```\nwith @notes.md"
    output = shell.Output("seq 9", "\n".join("123456789"), 0).attachment
    whole = attachments.message(f"{output}\n{typed}", attachments.attach(typed, folder))
    assert folded(whole) == ["$ seq 9 (exit code 0) · 9 lines", typed, "notes.md · 15 lines"]


def test_the_words_around_a_long_paste_stay_in_sight() -> None:
    paste = "\n".join(f"row {number}" for number in range(300))
    beginning, middle, end = folded(f"why does this fail?\n{paste}\nit ran yesterday")
    assert beginning.startswith("why does this fail?\nrow 0") and end.endswith("it ran yesterday")
    assert middle == "… 287 lines"
    assert folded("x" * 34_000)[1] == "… 32,200 characters"
    assert folded("two\n\nlines") == ["two\n\nlines"]


@pytest.mark.parametrize("line", ["x:\n````a\n", "x:\n```\n", "`" * 7 + "\n", "src/:\n```\n"])
def test_a_message_made_to_take_long_takes_no_time(line: str) -> None:
    begun = time.process_time()
    parts(line * 100_000)
    assert time.process_time() - begun < 3


async def test_an_attachment_is_a_line_until_it_is_opened(folder: Path) -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True), size=(80, 30)) as driver:
        await driver.type("explain @src/ please\n")
        await driver.until(lambda: len(driver.said) == 2 and not driver.writing)
        assert "number = 7" in driver.said[0][1], "the model reads all of it"
        await driver.until(lambda: "▸ src/ · 30 files · " in driver.picture and "tokens" in driver.picture)
        assert "explain @src/ please" in driver.picture and "number = 7" not in driver.picture
        question = driver.pane.query_one(Question)
        question.focus()
        await driver.press("enter")
        await driver.until(lambda: "▾ src/" in question.body.render().plain)  # type: ignore[union-attr]
        assert "number = 7" in question.content().plain
        await driver.press("enter")
        await driver.until(lambda: "▸ src/" in driver.picture)
        row = next(y for y, line in enumerate(driver.picture.splitlines()) if "▸ src/" in line)
        await driver.pilot.click(offset=(8, row))
        await driver.until(lambda: "number = 7" in question.content().plain)


async def test_a_conversation_that_is_opened_again_says_its_tokens_too(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for _ in range(2):
        async with running(ScriptedEngine("Yes.", can_chat=True), history=path) as driver:
            if not driver.said:
                await driver.type("see @notes.md\n")
            await driver.until(lambda: "▸ notes.md · 15 lines · " in driver.picture)
            await driver.until(lambda: len(driver.said) == 2 and not driver.writing)
