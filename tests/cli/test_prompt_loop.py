"""The line-by-line loop, in a terminal of its own."""

import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chatapp.history import History
from support.checkpoints import ENDLESS, MakeCheckpoint
from support.patience import PATIENCE

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

from support.pseudo_terminal import Terminal


@pytest.fixture
def folder(checkpoint: MakeCheckpoint) -> Path:
    return checkpoint(chats=True, max_position_embeddings=32768)


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    opened = Terminal("run", str(folder), "--max-tokens", "8", "--stats")
    yield opened
    opened.close()


def test_it_answers_line_by_line_and_remembers_until_told_to_forget(terminal: Terminal) -> None:
    terminal.until(">>> ")
    terminal.type("hello\n")
    assert "0 of them cached" in terminal.until(">>> ")
    terminal.type("and then?\n")
    assert " 0 of them cached" not in terminal.until(">>> ")
    terminal.type("/clear\n")
    terminal.until(">>> ")
    terminal.type("/bye\n")
    assert terminal.process.wait(120) == 0


def test_several_lines_are_one_message_between_fences(terminal: Terminal) -> None:
    terminal.until(">>> ")
    terminal.type('"""one\n')
    terminal.until("... ")
    terminal.type('two"""\n')
    terminal.until("tokens/s")


def test_a_paste_of_several_lines_is_one_message(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with closing(Terminal("run", str(folder), "--max-tokens", "2", "--stats")) as terminal:
        terminal.until(">>> ")
        terminal.type("\x1b[200~one\ntwo\x1b[201~")
        terminal.until("two")
        terminal.type("\n")
        terminal.until("tokens/s")
    with History(home / "history.db") as history:
        assert history.messages(1)[0].text == "one\ntwo"


def test_an_unknown_command_is_named_and_help_lists_them_all(terminal: Terminal) -> None:
    terminal.until(">>> ")
    terminal.type("/wat\n")
    terminal.until("Error: unknown command /wat")
    terminal.type("/?\n")
    assert "/clear " in terminal.until("begin and end a text of several lines")


def test_the_end_of_the_input_leaves(terminal: Terminal) -> None:
    terminal.until(">>> ")
    terminal.type("\x04")
    assert terminal.process.wait(120) == 0


def test_an_interrupt_stops_the_answer_and_another_leaves(folder: Path) -> None:
    terminal = Terminal("run", str(folder), *ENDLESS)
    try:
        terminal.until(">>> ")
        terminal.type("hello\n")
        terminal.until("hello\r\n")
        terminal.interrupt_the_answer()
        terminal.until(">>> ")
        assert terminal.interrupt_until_it_leaves() == 130
    finally:
        terminal.close()


def test_what_is_too_long_is_refused_and_the_loop_goes_on(checkpoint: MakeCheckpoint) -> None:
    terminal = Terminal("run", str(checkpoint("short", max_position_embeddings=64)), "--max-tokens", "4")
    try:
        terminal.until(">>> ")
        terminal.type("word, " * 100 + "\n")
        terminal.until("Error: the prompt is ")
        terminal.until(">>> ")
        terminal.type("x\n")
        assert "Error" not in terminal.until(">>> ")
    finally:
        terminal.close()


def test_a_language_server_in_a_terminal_tells_what_it_is_for_and_one_interrupt_ends_it() -> None:
    with closing(Terminal("lsp")) as terminal:
        assert "Waiting for an editor" in terminal.until("Ctrl+C quits.")
        terminal.process.send_signal(signal.SIGINT)
        assert (terminal.process.wait(PATIENCE), terminal.rest().strip()) == (-signal.SIGINT, "")
