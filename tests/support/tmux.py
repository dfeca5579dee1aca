"""A real terminal for tests: programs run in tmux, keys go in, and what its user would see comes out."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import pytest

from support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "tests" / "support" / "screen_driver.py"
"""The program of a screen with a scripted engine."""


class Terminal:
    """One program in a terminal of its own; the end of it stays on the screen."""

    def __init__(self, *command: str | Path, size: tuple[int, int] = (80, 24)) -> None:
        """Run Python with these arguments."""
        if not shutil.which("tmux"):
            pytest.skip("tmux is not installed")
        self.server = f"chatapp-{uuid4().hex[:12]}"
        self.command, self.size = [sys.executable, *map(str, command)], size

    def __enter__(self) -> Self:
        width, height = map(str, self.size)
        # env -u: pytest's readline puts COLUMNS and LINES into the environment of children, and Textual obeys them.
        shell = 'trap : INT; "$@"; echo "left with $?."; exec sleep 600'
        program = ["env", "-u", "COLUMNS", "-u", "LINES", "sh", "-c", shell, "sh", *self.command]
        self.tmux("new-session", "-d", "-s", "app", "-x", width, "-y", height, "-c", str(ROOT), *program)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.tmux("kill-server")

    def tmux(self, *arguments: str) -> str:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "TMUX")}
        command = ["tmux", "-u", "-L", self.server, "-f", "/dev/null", *arguments]
        done = subprocess.run(
            command, env={**environment, "PYTHONPATH": path}, capture_output=True, text=True, timeout=100
        )
        return done.stdout

    @property
    def screen(self) -> str:
        """What is to be seen."""
        return self.tmux("capture-pane", "-p", "-t", "app")

    def wait_for(self, *texts: str, gone: str = "") -> str:
        """Wait until all of these texts are on the screen, and another one is not; gives the screen."""
        end = time.monotonic() + PATIENCE
        while True:
            screen = self.screen
            if all(text in screen for text in texts) and not (gone and gone in screen):
                return screen
            assert time.monotonic() < end, f"no {texts} on the screen, or still {gone!r}:\n{screen}"
            time.sleep(0.05)

    def type(self, text: str) -> None:
        """Send letters, as fast as a paste without brackets would."""
        self.tmux("send-keys", "-t", "app", "-l", text)

    def press(self, *keys: str) -> None:
        """Send keys by tmux's names, such as Enter, Escape, C-j and M-Up."""
        self.tmux("send-keys", "-t", "app", *keys)

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-t", "app", "-x", str(width), "-y", str(height))

    def tell(self, fact: str) -> str:
        """What tmux knows of the terminal by this name."""
        return self.tmux("display", "-p", "-t", "app", f"#{{{fact}}}").strip()

    @property
    def program(self) -> int:
        """The number of the program's process."""
        shell = self.tell("pane_pid")
        return int(subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout)

    def signal(self, number: int) -> None:
        """Send the program a signal."""
        os.kill(self.program, number)

    def rests(self) -> bool:
        """Whether the program waits for something, such as a key: readline misses a Ctrl+C just before it does."""
        state = ["ps", "-o", "state=", "-p", str(self.program)]
        return subprocess.run(state, capture_output=True, text=True, check=True).stdout.startswith("S")

    def kill(self) -> None:
        """End the program as a crash would: at once, and whatever it was doing."""
        self.signal(9)
        assert self.left() == 137

    def close(self) -> None:
        """Close the terminal, as one closes its window; the program may go on for a while."""
        self.tmux("kill-session", "-t", "app")

    def left(self) -> int:
        """Wait until the program has ended; its exit code, as a shell tells it."""
        screen = self.wait_for("left with ")
        return int(screen.partition("left with ")[2].partition(".")[0])
