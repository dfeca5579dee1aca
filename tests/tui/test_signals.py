"""A terminal that is closed, and a signal to end: chatapp leaves as if its user did."""

import signal
import sys
from pathlib import Path

import pytest

from chatapp.history import History
from support.kept_conversations import said
from support.patience import until
from support.tmux import DRIVER, Terminal

if sys.platform == "win32":
    pytest.skip("no such signals", allow_module_level=True)


def test_a_text_outlives_its_terminal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Terminal(DRIVER, "--home", home) as terminal:
        terminal.wait_for("● ready")
        terminal.type("def one():\n    pass")
        terminal.wait_for("    pass")
        terminal.close()
    until(lambda: said(home / "history.db"), "the text to be kept")
    with Terminal(DRIVER, "--home", home) as terminal:
        terminal.wait_for("● ready", "def one():", "    pass")


def test_who_is_asked_to_end_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with Terminal(DRIVER, "chat", "--home", tmp_path / "home", "--delay", "0.1") as terminal:
        terminal.wait_for("● ready")
        terminal.type("why?")
        terminal.press("Enter")
        terminal.wait_for("● writing")
        terminal.type("and now?")
        terminal.press("Enter")
        terminal.type("so")
        terminal.wait_for("Waiting: and now?", "so")
        terminal.signal(signal.SIGTERM)
        assert terminal.left() == 0
        assert terminal.tell("alternate_on") + terminal.tell("mouse_any_flag") == "00"
    with History(tmp_path / "home" / "history.db") as history:
        assert history.draft(1) == "and now?\nso"
