"""`!command`: bounded, stopped when wanted, harmless to show, and in the message."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from chatapp.conversation import shell
from chatapp.conversation.folding import parts
from chatapp.text.errors import InputError
from support.patience import PATIENCE, until
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands are written for a POSIX shell")


@pytest.fixture(autouse=True)
def sh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")


@pytest.mark.parametrize(
    ("line", "command"),
    [("!ls -l", "ls -l"), (" ! ls ", "ls"), ("!!ls", None), ("!", None), ("! ", None), ("a !b", None), ("!a\nb", None)],
)
def test_a_line_with_one_exclamation_mark_is_a_command(line: str, command: str | None) -> None:
    assert shell.command_in(line) == command


def test_output_errors_and_the_exit_code_are_taken() -> None:
    found = shell.run("echo out; echo wrong >&2; exit 3")
    assert (found.text, found.code, found.told) == ("out\nwrong", 3, "exit code 3")
    assert found.attachment == "$ echo out; echo wrong >&2; exit 3 (exit code 3):\n```\nout\nwrong\n```"


def test_nothing_that_a_terminal_would_obey_is_left() -> None:
    found = shell.run(
        r"printf '\033[31mred\033[0m \033]0;title\007\033]8;;http://x\033\\link\033]8;;\033\\ 10%%\r20%%\n\007'"
    )
    assert found.text == "20%\n␇"
    assert shell.run(r"printf '\033[31mred\033[0m \033]0;title\007end\033]0;unfinished\nmore'").text == "red end\nmore"
    assert shell.run(r"printf '```\n'").attachment.count("````") == 2


def test_what_writes_without_end_or_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    begun = time.monotonic()
    many = shell.run("yes", largest=50_000)
    assert len(many.text) <= 50_000 and many.told == "stopped after 50,000 bytes of output" and many.code is None
    assert shell.run("sleep 1000", seconds=0.2).told == "stopped after 0.2 seconds"
    begun_too = tmp_path / "number"
    left = shell.run(f"sleep 1000 & echo $! >{begun_too}; wait", stopped=lambda: read(begun_too).endswith("\n"))
    assert left.told == "cancelled"
    assert shell.run("sleep 1000 & echo done").text == "done"
    assert time.monotonic() - begun < PATIENCE  # what sleeps does so for longer
    until(lambda: not runs(begun_too.read_text().strip()))


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def runs(process: str) -> bool:
    """Whether a process runs; one that only waits to be buried does not."""
    return subprocess.run(["ps", "-o", "state=", "-p", process], capture_output=True).stdout[:1] not in (b"", b"Z")


def test_a_command_reads_nothing_and_a_missing_shell_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell.run("cat").text == ""
    monkeypatch.setenv("SHELL", "/no/such/shell")
    with pytest.raises(InputError, match="cannot start /no/such/shell: no such file"):
        shell.run("true")


async def test_output_goes_into_the_message_and_is_folded_in_the_conversation() -> None:
    engine = ScriptedEngine("Yes.", can_chat=True)
    async with running(engine) as driver:
        await driver.type("!seq 50\n")
        await driver.until(lambda: "Run this in /bin/sh?" in driver.picture)
        await driver.press("enter")
        await driver.until(lambda: driver.pane.prompt.text == "[output of seq 50: 50 lines]\n")
        await driver.type("what are these?\n")
        await driver.until(lambda: len(driver.said) == 2 and not driver.writing)
        sent = driver.said[0][1]
        assert sent.startswith("$ seq 50 (exit code 0):\n```\n1\n2\n") and sent.endswith("50\n```\n\nwhat are these?")
        assert [part.label or part.text for part in parts(sent)] == [
            "$ seq 50 (exit code 0) · 50 lines",
            "what are these?",
        ]
        await driver.until(lambda: "▸ $ seq 50" in driver.picture)
        await driver.type("!echo again\n")  # not asked again
        await driver.until(lambda: "echo again" in driver.pane.prompt.text)
        await driver.press("f4")
        assert driver.pane.prompt.text.startswith("$ echo again (exit code 0):\n```\nagain\n```")


async def test_escape_cancels_a_command_and_gives_it_back() -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True)) as driver:
        await driver.type("!sleep 30\n")
        await driver.until(lambda: "Run this in" in driver.picture)
        await driver.press("escape")
        await driver.until(lambda: driver.pane.prompt.text == "!sleep 30")
        await driver.press("enter")
        await driver.until(lambda: "Run this in" in driver.picture)
        await driver.press("enter")
        await driver.until(lambda: "esc cancels" in driver.picture and "sleep 30" in driver.picture)
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is driver.screen and driver.pane.prompt.text == "!sleep 30")


async def test_two_exclamation_marks_send_one() -> None:
    engine = ScriptedEngine("Yes.", can_chat=True)
    async with running(engine) as driver:
        await driver.type("!!important\n")
        await driver.until(lambda: driver.said and not driver.writing)
        assert driver.said[0][1] == "!important"
