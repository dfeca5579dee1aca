"""What reaches a terminal byte by byte: from the screen, from plain lines and from commands."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chatapp.cli import main, repl
from chatapp.conversation import Setup
from chatapp.generation.engine import Engine
from chatapp.history import History
from chatapp.workspace import Opened, Workspace
from support.checkpoints import MakeCheckpoint
from support.hostile import ANSWERS, ESCAPES, NAME, UNSAFE, keep
from support.patience import PATIENCE
from support.scripted_engine import ScriptedEngine
from support.tmux import DRIVER

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

from support.pseudo_terminal import Terminal

OWN = re.compile(
    r"\x1b\[[\d;]*[mHK]|\x1b\[\?(?:7|25|1000|1003|1004|1006|1015|1016|1049|2004|2026|2048)(?:\$p|[hl])"
    r"|\x1b\[>\d+u|\x1b\[<u|\x1b\]22;[a-z]*\x07|\x1bP=\ds\x1b\\"
)
"""What Textual's renderer and its driver write."""


def test_the_screen_writes_no_sequence_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("TMUX", raising=False)
    home, answer = tmp_path / "user", tmp_path / "answer.md"
    home.mkdir()
    keep(home / "history.db", "\n\n".join(ANSWERS.values()), "\n\n".join(ANSWERS.values()))
    answer.write_text("\n\n".join(ESCAPES.values()), encoding="utf-8")
    terminal = Terminal("chat", "--home", str(home), "--delay", "0", "--says", str(answer), program=(str(DRIVER),))
    try:
        shown = terminal.until("ready")
        terminal.type("\x15")  # empties the prompt of its draft
        for keys, wanted in (("\x05\x15hello\r", "done"), ("\x02", "Today"), ("d", "deleted"), ("\x1bOR", "Words")):
            terminal.type(keys)
            shown += wanted + terminal.until(wanted)
        terminal.type("\x11")
        shown += terminal.rest()
        assert terminal.process.wait(PATIENCE) == 0
    finally:
        terminal.close()
    assert "␛]0;owned" in shown
    assert shown.count("\x1b[?1049h") == 1 and shown.count("\x1b[?1049l") == 1
    left = OWN.sub("", shown).replace("\r\n", "\n").replace("\r", "")
    assert not UNSAFE.search(left), [left[found.start() - 20 : found.end() + 30] for found in UNSAFE.finditer(left)][:5]


@pytest.fixture
def said(home: Path) -> Iterator[History]:
    """The user's history with a hostile conversation."""
    home.mkdir(exist_ok=True)
    keep(home / "history.db", NAME, "\n".join(ANSWERS.values()))
    with History(home / "history.db") as opened:
        yield opened


@pytest.mark.parametrize(
    "command",
    [
        "sessions ls", "sessions show", "sessions search evil", "sessions export --all --format markdown",
        "sessions export --all --format html", "sessions show --json", "sessions ls --json", "sessions import {file}",
        "sessions {file}", "sessions export 1 --output {file}.md", "show {model}", "run {file} hello",
        "import {broken} --dry-run",
    ],
)  # fmt: skip
def test_commands_print_nothing_that_a_terminal_obeys(
    command: str, said: History, checkpoint: MakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "evil\x1b]0;owned\x07\u202e.json"
    file.write_text(json.dumps([{"title": NAME, "mapping": {NAME: {"message": NAME}}}]))
    model, broken = checkpoint("tiny"), checkpoint("broken", model_type=NAME)
    (model / "README.md").write_text(f"# Title\n{NAME}\n", encoding="utf-8")
    words = [word.format(file=file, model=model, broken=broken) for word in command.split()]
    with suppress(SystemExit):
        main.main(words)
    out, err = capsys.readouterr()
    assert "evil" in out + err
    assert not UNSAFE.search(out) and not UNSAFE.search(err)


def test_an_answer_of_control_characters_is_shown(
    checkpoint: MakeCheckpoint, vocabulary: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = json.loads(vocabulary)["model"]["vocab"]
    biases = [part for letter in "ě]0;ćĽŀ" for part in ("--logit-bias", f"{known[letter]}=100")]
    assert (
        main.main(["run", str(checkpoint()), "hello", *biases, "--max-tokens", "99", "--seed", "1", "--logprobs", "2"])
        == 0
    )
    out, err = capsys.readouterr()
    assert "␛" in out and "␇" in out and not UNSAFE.search(out) and not UNSAFE.search(err)


def test_plain_lines_hold_nothing_that_a_terminal_obeys(
    said: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def typed() -> Iterator[str]:
        yield from (
            "hello",
            "/set system " + NAME,
            "/save " + NAME,
            "/show system",
            "/load " + NAME,
            "/" + NAME,
            "/search evil",
            "more",
        )

    lines = typed()

    def ask(mark: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(repl, "ask", ask)
    scripted: Any = ScriptedEngine("\n".join(ANSWERS.values()), can_chat=True, context_length=1_000_000)
    engine: Engine = scripted  # meets the contract

    def open_model(name: str) -> Opened:
        return Opened(engine, NAME, 0, 0.0)

    view = repl.LineView(engine, Setup(NAME), Workspace(), open_model, history=said, plain=True)
    assert repl.loop(view) == 0
    out, err = capsys.readouterr()
    assert "evil␛]0;" in out and "evil␛]0;" in err
    assert not UNSAFE.search(out) and not UNSAFE.search(err)
