"""chatapp.text.clipboard: a copied text arrives, and chatapp says where."""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from chatapp.text.clipboard import TERMINAL_LIMIT, code_blocks, copy

REMOTE = {"SSH_CONNECTION": "10.0.0.1 22 10.0.0.2 22", "TERM": "xterm-256color"}
"""No desktop of one's own, but a terminal."""


def test_a_terminal_is_sent_what_no_desktop_takes(tmp_path: Path) -> None:
    sent: list[str] = []
    copied = copy("näive", sent.append, tmp_path, REMOTE)
    assert (copied.way, sent, str(copied)) == ("terminal", ["näive"], "Sent to the terminal's clipboard.")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("text", "term"), [("x" * (TERMINAL_LIMIT + 1), "xterm"), ("x", "linux"), ("x", "dumb")])
def test_what_a_terminal_does_not_take_is_saved(tmp_path: Path, text: str, term: str) -> None:
    sent: list[str] = []
    folder = tmp_path / "home"
    for _ in range(2):
        copied = copy(text, sent.append, folder, {**REMOTE, "TERM": term})
    assert copied.path == folder / "copied.txt" and copied.way == "file"
    assert str(copied) == f"No clipboard here; saved as {copied.path}."
    assert copied.path.read_text() == text
    assert stat.S_IMODE(copied.path.stat().st_mode) == 0o600
    assert (sent, list(folder.iterdir())) == ([], [copied.path])


def test_lone_surrogates_are_no_reason_to_fail(tmp_path: Path) -> None:
    copied = copy("a\ud800b", lambda _: None, tmp_path, {**REMOTE, "TERM": "dumb"})
    assert copied.path and copied.path.read_bytes() == b"a?b"


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A desktop whose clipboard is a file, behind the program that pyperclip calls."""
    programs, board = tmp_path / "bin", tmp_path / "board"
    programs.mkdir()
    xclip = programs / "xclip"
    xclip.write_text(
        f"#!{sys.executable}\nimport sys, os\nboard = {str(board)!r}\n"
        "if '-o' in sys.argv:\n    sys.stdout.write(open(board).read() if os.path.exists(board) else '')\n"
        "elif not os.environ.get('BROKEN'):\n    open(board, 'w').write(sys.stdin.read())\n"
    )
    os.chmod(xclip, 0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    for name in [name for name in sys.modules if name.startswith("pyperclip")]:
        monkeypatch.delitem(sys.modules, name)  # it looks for programs when it is imported
    return board


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pyperclip calls another program")
def test_the_desktops_clipboard_comes_first(desktop: Path, tmp_path: Path) -> None:
    sent: list[str] = []
    copied = copy("two\nlines", sent.append, tmp_path, {"DISPLAY": ":0", "TERM": "xterm"})
    assert (copied.way, str(copied), sent) == ("clipboard", "Copied.", [])
    assert desktop.read_text() == "two\nlines"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pyperclip calls another program")
def test_a_clipboard_that_only_seems_to_take_it_is_not_believed(
    desktop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "1")
    assert copy("text", lambda _: None, tmp_path, {"DISPLAY": ":0", "TERM": "xterm"}).way == "terminal"


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a program in a tmux of its own."""
    socket = f"clipboard-{uuid4().hex[:8]}"
    if not shutil.which("tmux"):
        pytest.skip("tmux is not here")
    command = ["tmux", "-L", socket, "-f", "/dev/null"]
    subprocess.run([*command, "new-session", "-d", f"echo $TMUX >{tmp_path}/found; sleep 600"], check=True)
    while not (tmp_path / "found").exists() or not (tmp_path / "found").read_text().strip():
        time.sleep(0.02)
    yield {"TMUX": (tmp_path / "found").read_text().strip(), "PATH": os.environ["PATH"], **REMOTE}
    subprocess.run([*command, "kill-server"], check=False, capture_output=True)


def test_tmux_gets_it_in_its_buffer(tmux: dict[str, str], tmp_path: Path) -> None:
    copied = copy("näive\n" * 30_000, pytest.fail, tmp_path, tmux)
    assert copied.way == "tmux"
    assert "tmux's buffer" in str(copied)
    socket = tmux["TMUX"].partition(",")[0]
    shown = subprocess.run(["tmux", "-S", socket, "show-buffer"], capture_output=True, check=True)
    assert shown.stdout.decode() == "näive\n" * 30_000


def test_a_tmux_that_is_gone_leaves_a_file(tmp_path: Path) -> None:
    found = {**REMOTE, "TMUX": f"{tmp_path}/gone,1,0", "PATH": os.environ["PATH"]}
    assert copy("text", pytest.fail, tmp_path, found).way == "file"
    assert copy("text", pytest.fail, tmp_path, {**found, "PATH": str(tmp_path)}).way == "file"


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("none", []),
        ("```python\nx = 1\n```\ntext\n~~~\ny\n~~~\n", ["x = 1\n", "y\n"]),
        ("````md\n```py\ninner\n```\n````", ["```py\ninner\n```\n"]),
        ("open\n```sh\nls\npwd", ["ls\npwd"]),
        ("1. first\n\n   ```c\n   int x;\n     y;\n   ```\n", ["int x;\n  y;\n"]),
        ("> ```\n> quoted\n> ```\n", ["quoted\n"]),
        ("not `inline ``` code`", []),
        ("```js title=x\n\n\n```", ["\n\n"]),
        ("```\n```", [""]),
        ("    ```\n    indented is no fence\n", []),
    ],
)
def test_fenced_blocks_are_found(text: str, blocks: list[str]) -> None:
    assert code_blocks(text) == blocks
