"""Nothing but pull, search and login touches the network: no connection, no lookup, not even a library for it."""

import os
import select
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, MakeCheckpoint, Run

COMMANDS = [
    ("--help",),
    ("run", "builtin", "import os", "--max-tokens", "3"),
    ("run", "CHECKPOINT", "hello", "--max-tokens", "3", "--precision", "f32"),
    ("run", "gpt2", "hello"),
    ("run", "org/name", "hello"),
    ("complete", "--at", "1:1"),
    ("list",),
    ("show", "builtin"),
    ("devices",),
    ("why", "CHECKPOINT"),
    ("verify", "CHECKPOINT"),
    ("bench", "CHECKPOINT", "--tokens", "4"),
    ("rm", "CHECKPOINT"),
    ("search",),
    ("version",),
]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where each process of this test notes that it touched the network."""
    path = tmp_path / "notes"
    path.touch()
    monkeypatch.setenv("NETWORK_NOTES", str(path))
    return path


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_touches_no_network(
    chatapp: Run, checkpoint: MakeCheckpoint, notes: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if arguments[0] == "why":
        monkeypatch.setenv("CHATAPP_BACKEND", "")  # so that it measures, in processes of its own
    folder = str(checkpoint())
    done = chatapp(*(folder if word == "CHECKPOINT" else word for word in arguments), stdin="x = 1\n")
    assert notes.read_text() == ""
    assert done.returncode == (1 if arguments[1:2] in (("gpt2",), ("org/name",)) else 0), done.stderr


def test_the_note_is_made_where_the_network_is_touched(chatapp: Run, notes: Path) -> None:
    assert chatapp("search", "tiny").returncode == 1
    assert "import httpx2" in notes.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of Unix")
def test_the_screen_touches_no_network(notes: Path) -> None:
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "chatapp"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT
    )
    os.close(theirs)
    seen, typed, end = b"", False, time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        if select.select([ours], [], [], 0.5)[0]:
            try:
                seen += os.read(ours, 1 << 16)
            except OSError:
                break
        elif not typed:
            typed = bool(os.write(ours, b"x = 1\r"))
        else:
            os.write(ours, b"\x11")  # ctrl+q
    os.close(ours)
    assert process.wait(60) == 0
    assert typed and b"builtin" in seen
    assert notes.read_text() == ""
