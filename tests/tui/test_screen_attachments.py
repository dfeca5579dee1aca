"""The box where messages are typed: files and folders that go with a message."""

from pathlib import Path

import pytest

from chatapp.conversation.attachments import LARGEST
from chatapp.tui.prompt import Prompt
from support.prompt_page import page, words


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for path, text in {"README.md": "# Read me\n", "src/app.py": "print()\n", "a file.txt": "spaces\n"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


async def test_an_at_offers_files_and_enter_takes_one(tree: Path) -> None:
    async with page(Prompt(root=tree)) as driver:
        await driver.type("what does @ap")
        await driver.until(lambda: driver.offered == ["src/app.py"])
        await driver.press("enter")
        assert driver.prompt.draft == "what does @src/app.py "
        await driver.type("do?\n")
        await driver.until(lambda: driver.texts)
        assert driver.texts == ["what does @src/app.py do?\n\nsrc/app.py:\n```py\nprint()\n```"]
        (sent,) = driver.app.got
        assert isinstance(sent, Prompt.Submitted)
        assert sent.draft == "what does @src/app.py do?"


async def test_a_folder_is_taken_step_by_step_and_a_name_with_spaces_is_quoted(tree: Path) -> None:
    async with page(Prompt(root=tree)) as driver:
        await driver.type("@src")
        await driver.until(lambda: driver.offered[:1] == ["src/"])
        await driver.press("tab")
        await driver.until(lambda: driver.offered == ["src/", "src/app.py"])
        await driver.press("down", "enter")
        assert driver.prompt.draft == "@src/app.py "
        await driver.type("@file")
        await driver.until(lambda: driver.offered == ["a file.txt"])
        await driver.press("tab")
        assert driver.prompt.draft == '@src/app.py @"a file.txt" '


async def test_a_word_that_is_no_file_stays_text(tree: Path) -> None:
    async with page(Prompt(root=tree)) as driver:
        await driver.type("write to me@README.md and @nobody\n")
        await driver.until(lambda: driver.texts)
        assert driver.texts == ["write to me@README.md and @nobody"]


@pytest.mark.parametrize("word", ["apy", "/app", "~/a", "data.bin"])
async def test_a_word_with_the_letters_of_a_file_stays_text_and_so_does_a_path(tree: Path, word: str) -> None:
    (tree / "data.bin").write_text("x")
    (tree / "old_data.bin.txt").write_text("x")
    async with page(Prompt(root=tree)) as driver:
        await driver.type("thanks @")
        await driver.until(lambda: driver.offered)
        await driver.type(word)
        await driver.until(lambda: driver.offered == (["src/app.py"] if word == "apy" else []))
        await driver.press("enter")
        await driver.until(lambda: driver.texts)
        assert driver.texts[0].startswith(f"thanks @{word}") and "print()" not in driver.texts[0]


async def test_a_guess_is_taken_by_enter_once_somebody_went_to_it_and_by_tab(tree: Path) -> None:
    async with page(Prompt(root=tree)) as driver:
        for key in ["down", "enter"], ["tab"]:
            await driver.type("@apy")
            await driver.until(lambda: driver.offered == ["src/app.py"])
            await driver.press(*key)
        assert driver.prompt.draft == "@src/app.py @src/app.py "


async def test_the_picker_and_the_prompt_tell_tokens(tree: Path) -> None:
    (tree / "long.txt").write_text("word " * 1234)
    async with page(Prompt(root=tree, count_tokens=words)) as driver:
        await driver.type("see @lon")
        await driver.until(lambda: driver.prompt.popup.weight == "~1,237 tokens")
        await driver.until(lambda: "~1,237 tokens" in driver.picture)
        await driver.press("enter")
        await driver.until(lambda: driver.app.counted and driver.app.counted[-1].tokens == 1234 + 2 + 1 + 2)
        assert driver.prompt.popup.note == "long.txt · ~1,239 tokens in all"
        assert driver.prompt.known.keys() == {"long.txt"}
        await driver.pilot.pause()
        await driver.until(lambda: "long.txt · ~1,239 tokens in all" in driver.picture)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("picture.png", b"\0", "picture.png is not a text file"),
        ("huge.txt", b"x" * (LARGEST + 1), "huge.txt is too large to attach: 1 MB, at most 1 MB"),
    ],
)
async def test_what_cannot_be_attached_is_said_before_and_nothing_is_lost(
    tree: Path, name: str, content: bytes, complaint: str
) -> None:
    (tree / name).write_bytes(content)
    async with page(Prompt(root=tree)) as driver:
        await driver.type(f"look at @{name}")
        await driver.until(lambda: driver.prompt.popup.problem == complaint)
        await driver.type("\nnext")
        await driver.until(lambda: driver.complaints)
        assert (driver.complaints, driver.texts) == ([complaint], [])
        assert driver.prompt.draft == f"look at @{name}\nnext"


async def test_a_file_that_vanished_is_told_and_one_that_changed_is_sent_as_it_is(tree: Path) -> None:
    async with page(Prompt(root=tree)) as driver:
        await driver.type("@README.md now")
        await driver.until(lambda: driver.prompt.known)
        (tree / "README.md").write_text("another text")
        await driver.press("enter")
        await driver.until(lambda: driver.texts)
        assert driver.complaints == ["README.md has changed since you attached it; the current version is sent"]
        assert "another text" in driver.texts[0]
        await driver.type("@README.md again")
        await driver.until(lambda: driver.prompt.known)
        (tree / "README.md").unlink()
        await driver.press("enter")
        await driver.until(lambda: len(driver.complaints) == 2)
        assert driver.complaints[1] == "README.md no longer exists; remove @README.md, or put the file back"
        assert driver.prompt.draft == "@README.md again"


async def test_messages_leave_in_the_order_in_which_they_were_sent(tree: Path) -> None:
    async with page(Prompt(root=tree)) as driver:
        await driver.type("one @README.md!\ntwo\n")
        await driver.until(lambda: len(driver.texts) == 2)
        assert [text.partition(" ")[0] for text in driver.texts] == ["one", "two"]


async def test_a_path_in_a_folded_paste_is_not_attached(tree: Path) -> None:
    async with page(Prompt(root=tree)) as driver:
        pasted = "@README.md\n" * 300 + "end"
        await driver.paste(pasted)
        await driver.type(" @src/app.py\n")
        await driver.until(lambda: driver.texts)
        assert driver.texts == [f"{pasted} @src/app.py\n\nsrc/app.py:\n```py\nprint()\n```"]
