"""Ctrl+Z with nothing typed goes to the shell, and `fg` brings everything back."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.screen_driver import beginning, running, started
from support.scripted_engine import ScriptedEngine
from support.tmux import DRIVER, Terminal

TOLD = "Cannot suspend: chatapp was not started from a shell."


@pytest.mark.skipif(sys.platform == "win32", reason="no job control")
def test_ctrl_z_with_nothing_typed_goes_to_the_shell_and_fg_comes_back(tmp_path: Path) -> None:
    with Terminal("-c", "import pty; pty.spawn(['bash', '--norc', '-i'])") as terminal:
        terminal.wait_for("bash")
        program = f"{sys.executable} {DRIVER} chat --home {tmp_path / 'home'}"
        terminal.type(f"PS1='shell: '; clear; {program}\n")
        terminal.wait_for("● ready")
        terminal.press("C-z")
        terminal.wait_for("Stopped", "shell:", gone="● ready")
        terminal.type("echo still $((40 + 2)); fg")
        terminal.press("Enter")
        terminal.wait_for("● ready", "Ask the model")
        terminal.type("why?")
        terminal.press("Enter")
        terminal.wait_for("● done", "decoding is bound by memory")
        terminal.press("C-p")
        terminal.wait_for("type what you want to do")
        terminal.type("suspend")
        terminal.wait_for("fg comes back")
        terminal.press("Enter")
        terminal.wait_for("still 42", "Stopped", gone="● done")
        terminal.type("fg")
        terminal.press("Enter")
        terminal.wait_for("● done", "decoding is bound by memory")


async def test_where_nobody_could_wake_it_again_it_stays_and_says_so() -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True)) as driver:
        await driver.press("ctrl+z")
        await driver.until(lambda: driver.toasts == [TOLD])
        await driver.type("draft")
        await driver.press("ctrl+z", "ctrl+z", "ctrl+z")  # one too many
        await driver.pilot.pause()
        assert driver.pane.prompt.text == "" and driver.toasts == [TOLD]


async def test_what_was_deleted_comes_back_first() -> None:
    async with running(ScriptedEngine("Yes.", can_chat=True)) as driver:
        await driver.type("a draft")
        assert not driver.toasts
        await driver.press("ctrl+u", "ctrl+z")
        await driver.until(lambda: driver.pane.prompt.text == "a draft")


@pytest.mark.parametrize("can_chat", [True, False])
async def test_the_setting_keeps_ctrl_z_for_undoing(can_chat: bool) -> None:
    start = beginning(ScriptedEngine(can_chat=can_chat), "m")
    start.chosen = replace(start.chosen, suspend=False)
    async with started(start) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue)
        await driver.press("ctrl+z")
        await driver.pilot.pause()
        assert not driver.toasts
