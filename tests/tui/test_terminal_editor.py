"""The editor that the user has chosen, in a real terminal; one that fails gives it back, and keeps Ctrl+C."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.tmux import DRIVER, Terminal

WRITES = """\
import pathlib, sys
file = pathlib.Path(sys.argv[1])
print("the editor has the terminal", flush=True)
input()
file.write_text(file.read_text() + " and two\\nlines")
"""
FAILS = """\
import os, select, signal, sys
interrupted, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)  # input() misses a Ctrl+C that comes after its prompt is shown and before it reads
signal.signal(signal.SIGINT, lambda number, frame: None)
print("the editor has the terminal", flush=True)
ready = select.select([sys.stdin, interrupted], [], [])[0]
raise SystemExit(3 if interrupted in ready else 1)
"""


@contextmanager
def editing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editor: str) -> Iterator[Terminal]:
    """A message that was begun on the screen and is open in an editor; the screen can be left afterwards."""
    script = tmp_path / "editor.py"
    script.write_text(editor, encoding="utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")
    with Terminal(DRIVER, "chat", "--home", tmp_path / "user") as terminal:
        terminal.wait_for("● ready")
        terminal.type("one")
        terminal.wait_for("one")
        terminal.press("C-g")
        terminal.wait_for("the editor has the terminal")
        yield terminal
        terminal.press("C-q")
        assert terminal.left() == 0


def test_ctrl_g_gives_the_terminal_to_the_editor_and_its_text_to_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with editing(tmp_path, monkeypatch, WRITES) as terminal:
        terminal.press("Enter")
        terminal.wait_for("one and two", "lines", "● ready", gone="the editor has the terminal")
        terminal.press("Enter")
        terminal.wait_for("● done", "Prefill reads the weights")


@pytest.mark.parametrize(("key", "code"), [("C-c", 3), ("C-d", 1)])
def test_the_screen_comes_back_with_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, code: int
) -> None:
    with editing(tmp_path, monkeypatch, FAILS) as terminal:
        terminal.press(key)
        terminal.wait_for(f"exited with code {code}", "one", "● ready", gone="the editor has the terminal")
