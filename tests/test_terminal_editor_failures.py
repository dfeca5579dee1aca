"""An editor that fails gives the terminal back, in a real one; Ctrl+C there is the editor's."""

import sys
from pathlib import Path

import pytest
from tmux import ROOT, Terminal

EDITOR = """\
try:
    input("the editor has the terminal")
except KeyboardInterrupt:
    raise SystemExit(3)
"""


@pytest.mark.parametrize(("key", "code"), [("C-c", 3), ("C-d", 1)])
def test_the_screen_comes_back_with_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, code: int
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
        terminal.press(key)
        terminal.wait_for(f"ended with exit code {code}", "one", "● ready", gone="the editor has the terminal")
        terminal.press("C-q")
        assert terminal.left() == 0
