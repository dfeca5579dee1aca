"""The line-by-line loop, in a terminal of its own."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from support.checkpoints import ENDLESS, ROOT, MakeCheckpoint

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

import pty


class Terminal:
    """A pseudo-terminal with chatapp in it."""

    def __init__(self, *arguments: str, program: Sequence[str] = ("-m", "chatapp")) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT
        )
        os.close(theirs)
        self.unread = ""

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def until(self, text: str) -> str:
        """What is shown up to `text`, which has to come within two minutes."""
        end = time.monotonic() + 120
        while text not in self.unread:
            ready, _, _ = select.select([self.ours], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{text!r} did not come, only {self.unread!r}"
            self.unread += os.read(self.ours, 65536).decode(errors="replace")
        before, _, self.unread = self.unread.partition(text)
        return before

    def interrupt_the_answer(self) -> None:
        """Press Ctrl+C when some of it is there."""
        while len(self.unread) < 20:
            self.unread += os.read(self.ours, 100).decode(errors="replace")
        self.process.send_signal(signal.SIGINT)
        self.until("Interrupted.")

    def rest(self) -> str:
        """What is shown until the program ends."""
        with suppress(OSError):  # what reading gives then
            while more := os.read(self.ours, 65536):
                self.unread += more.decode(errors="replace")
        return self.unread

    def interrupt_until_it_leaves(self) -> int:
        """Press Ctrl+C, more than once because readline misses it just before it waits, and return the exit code."""
        for _ in range(20):
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(1)
        raise AssertionError("it does not leave")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


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
