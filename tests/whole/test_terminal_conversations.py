"""Conversations in real terminals: streamed, stopped, resized, searched, branched, killed, and shared."""

from pathlib import Path

import pytest

from chatapp.history import History
from support.tmux import DRIVER, Terminal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "user"


def chat(home: Path, *, delay: float = 0.0, times: int = 1, size: tuple[int, int] = (80, 24)) -> Terminal:
    """The screen with a scripted chat model."""
    return Terminal(DRIVER, "chat", "--home", home, "--delay", str(delay), "--times", str(times), size=size)


def test_an_answer_streams_through_resizes_and_stops_and_the_engine_is_free_at_once(folder: Path) -> None:
    with chat(folder, delay=0.03, times=50) as terminal:
        terminal.wait_for("● ready")
        terminal.type("why is decoding slow?")
        terminal.press("Enter")
        terminal.wait_for("● writing", "tok/s", "Prefill reads the weights")
        terminal.resize(100, 30)
        terminal.wait_for("● writing", "def decode(session, token):")
        terminal.resize(44, 12)
        terminal.wait_for("writing")
        terminal.resize(80, 24)
        terminal.wait_for("● writing", "tok/s")
        terminal.press("Escape")
        terminal.wait_for("■ stopped", "first token")
        terminal.type("and now?")
        terminal.press("Enter")
        terminal.wait_for("● writing", "and now?")
        terminal.press("C-c")
        terminal.wait_for("■ stopped")
        terminal.press("C-q")
        assert terminal.left() == 0
    assert [file.name for file in folder.glob("history.db*")] == ["history.db"]  # whole by itself
    with History(folder / "history.db") as history:
        first, partly, second, rest = history.messages(1)
        assert (first.text, second.text) == ("why is decoding slow?", "and now?")
        assert partly.finish_reason == rest.finish_reason == "cancelled"
        assert partly.text.startswith("Prefill reads the weights")


def test_words_are_searched_and_their_message_is_opened(folder: Path) -> None:
    with chat(folder) as terminal:
        terminal.wait_for("● ready")
        terminal.type("which whales sing?")
        terminal.press("Enter")
        terminal.wait_for("● done")
        terminal.press("C-n")
        terminal.wait_for("● ready")
        terminal.type("something else")
        terminal.press("Enter")
        terminal.wait_for("● done", gone="whales")
        terminal.press("F3")
        terminal.wait_for("Words in any conversation")
        terminal.type("whal sing")
        terminal.wait_for("1 match")
        terminal.press("Enter")
        terminal.wait_for("which whales sing?", "Prefill reads", gone="1 match")


def test_an_edited_message_is_a_branch_and_one_walks_between_them(folder: Path) -> None:
    with chat(folder, size=(100, 40)) as terminal:
        terminal.wait_for("● ready")
        terminal.type("one")
        terminal.press("Enter")
        terminal.wait_for("● done")
        terminal.press("BTab", "BTab")
        terminal.wait_for("e Edit")
        terminal.press("e")
        terminal.wait_for("Editing:")
        terminal.type(" and a half")
        terminal.press("Enter")
        terminal.wait_for("one and a half", "‹ 2 / 2 ›", "● done", gone="Editing:")
        terminal.press("BTab", "BTab")
        terminal.wait_for("e Edit")
        terminal.press("Left")
        terminal.wait_for("‹ 1 / 2 ›", gone="one and a half")
        terminal.press("Right")
        terminal.wait_for("‹ 2 / 2 ›", "one and a half")


def test_what_was_written_is_there_after_a_kill_in_mid_answer(folder: Path) -> None:
    with chat(folder, delay=0.05, times=50) as terminal:
        terminal.wait_for("● ready")
        terminal.type("why?")
        terminal.press("Enter")
        terminal.wait_for("def decode(session, token):")
        terminal.kill()
    with chat(folder) as terminal:
        terminal.wait_for("● ready", "why?", "Prefill reads the weights")
        terminal.type("go on")
        terminal.press("Enter")
        terminal.wait_for("● done", "go on")


def test_several_answers_that_were_killed_are_versions_afterwards(folder: Path) -> None:
    with chat(folder, delay=0.05, times=50, size=(120, 40)) as terminal:
        terminal.wait_for("● ready")
        terminal.type("why?")
        terminal.press("F7")
        terminal.wait_for("How many answers")
        terminal.press("3")
        terminal.wait_for("● writing", "Prefill reads")
        terminal.wait_for("def decode")
        terminal.kill()
    with chat(folder, size=(120, 40)) as terminal:
        terminal.wait_for("● ready", "why?", "Prefill reads", "/ 3 ›")


def test_two_screens_share_one_history(folder: Path) -> None:
    with chat(folder, size=(120, 40)) as one, chat(folder, size=(120, 40)) as two:
        for terminal, text in ((one, "said in the first"), (two, "said in the second")):
            terminal.type(text)
            terminal.wait_for("● ready", text)  # neither has sent yet: a screen goes on with what was said before it
        for terminal in (one, two):
            terminal.press("Enter")
        for terminal in (one, two):
            terminal.wait_for("● done")
            terminal.press("C-b")
            terminal.wait_for("Today")
        for terminal in (one, two):
            terminal.press("C-b", "C-b")
            terminal.wait_for("said in the first", "said in the second")
        for terminal in (one, two):
            terminal.press("C-q")
            assert terminal.left() == 0
    with History(folder / "history.db") as history:
        assert sorted(len(history.messages(one.id)) for one in history.list()) == [2, 2]


def test_what_no_disk_takes_is_in_a_file_that_the_terminal_names(folder: Path) -> None:
    folder.mkdir()
    with History(folder / "history.db") as history:
        history.connection.execute("PRAGMA user_version = 99")
    with chat(folder, size=(160, 30)) as terminal:
        terminal.wait_for("● ready", "Conversations are not being saved", "update chatapp")
        terminal.type("why?")
        terminal.press("Enter")
        terminal.wait_for("● done")
        terminal.press("C-q")
        assert terminal.left() == 0
        terminal.wait_for("All of it is in", "chatapp sessions import")
    (file,) = folder.glob("unsaved-*.json")
    assert "why?" in file.read_text()
