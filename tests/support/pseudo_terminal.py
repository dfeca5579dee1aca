"""A pseudo-terminal with a program in it, for tests."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest

from support.checkpoints import ROOT

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
