"""The editor that the user has chosen, in a real terminal."""

import sys
from pathlib import Path

import pytest
from tmux import ROOT, Terminal

EDITOR = """\
import pathlib, sys
file = pathlib.Path(sys.argv[1])
print("the editor has the terminal", flush=True)
input()
file.write_text(file.read_text() + " and two\\nlines")
"""


def test_ctrl_g_gives_the_terminal_to_the_editor_and_its_text_to_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "editor.py"
    script.write_text(EDITOR, encoding="utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")
    with Terminal(ROOT / "tests" / "screen_driver.py", "chat", "--home", tmp_path / "user") as terminal:
        terminal.wait_for("● ready")
        terminal.type("one")
        terminal.wait_for("one")
        terminal.press("C-g")
        terminal.wait_for("the editor has the terminal")
        terminal.press("Enter")
        terminal.wait_for("one and two", "lines", "● ready", gone="the editor has the terminal")
        terminal.press("Enter")
        terminal.wait_for("● done", "Prefill reads the weights")
        terminal.press("C-q")
        assert terminal.left() == 0
