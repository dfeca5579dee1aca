"""The screen in processes and terminals of its own."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from support.patience import until

ROOT = Path(__file__).parents[2]
VENDORS = "numpy onnxruntime openvino tokenizers jinja2 huggingface_hub pydantic aiohttp httpx markdown_it pygments"
SLOW = "sqlite3 textual.widgets._markdown textual.widgets._data_table model_store"
OURS = "commands.parameters conversation.conversation evaluation generation history models.catalogue models.jobs"
OURS += " settings.keymap"
SCREENS = "answers help insight models.screen models.listing prompt sampling chat.message chat.sidebar chat.chat_page"
SCREENS += " chat.models chat.sampling chat.view"
LATE = [*VENDORS.split(), *SLOW.split(), "backends.decoder", "backends.reference"]
LATE += [f"chatapp.{name}" for name in OURS.split()] + [f"chatapp.tui.{name}" for name in SCREENS.split()]
"""Modules that the first frame does not need."""


def test_the_first_frame_waits_for_nothing_heavy() -> None:
    probe = """
        import sys
        from chatapp.tui import app
        from chatapp.workspace import Workspace
        from chatapp.tui.chat import screen

        def first_frame(self, act):
            print(*sys.modules)
            self.app.exit()

        screen.ChatScreen.in_thread = first_frame  # what comes after it
        app.ChatApp(Workspace()).run(headless=True, size=(80, 24))
    """
    command = [sys.executable, "-c", textwrap.dedent(probe)]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True).stdout.split()
    assert "chatapp.tui.chat.screen" in loaded
    too_early = [name for name in loaded if any(f"{name}.".startswith(f"{one}.") for one in LATE)]
    assert not too_early


@pytest.fixture
def terminal() -> Iterator[Callable[..., str]]:
    """A real terminal of 80 by 24, driven by tmux."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    server = f"chatapp-{uuid4().hex[:8]}"
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "TMUX")}

    def tmux(*arguments: str) -> str:
        command = ["tmux", "-L", server, "-f", "/dev/null", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100).stdout

    yield tmux
    tmux("kill-server")


def test_in_a_real_terminal_one_types_sees_the_answer_stops_it_and_leaves(terminal: Callable[..., str]) -> None:
    # env -u: pytest's readline puts COLUMNS and LINES into the environment of children, and Textual would obey them.
    program = f"cd {ROOT}; PYTHONPATH=tests {sys.executable} -m support.screen_driver; echo left with $?; sleep 600"
    terminal("new-session", "-d", "-s", "app", "-x", "80", "-y", "24", f"env -u COLUMNS -u LINES sh -c '{program}'")

    def wait_for(*texts: str) -> None:
        until(lambda: all(text in terminal("capture-pane", "-p", "-t", "app") for text in texts), str(texts))

    wait_for("● ready", "continues your text", "^J Continue")
    terminal("send-keys", "-t", "app", "-l", "def fibonacci(n):")
    wait_for("def fibonacci(n):", "5 / 1,024")
    terminal("send-keys", "-t", "app", "C-j")
    wait_for("● writing", "tok/s", "a, b = b, a + b")
    terminal("resize-window", "-t", "app", "-x", "100", "-y", "30")
    terminal("send-keys", "-t", "app", "Escape")
    wait_for("■ stopped", "first token", "onnx · cpu · int8")
    terminal("send-keys", "-t", "app", "C-c")
    wait_for("ctrl+q quits chatapp.")
    terminal("send-keys", "-t", "app", "C-q")
    wait_for("left with 0")
