"""Comfort where something fails or goes too far: no place for a copy, counts that would take ages."""

from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import TextArea

from chatapp.tui.help.theme_picker import ThemePicker
from chatapp.tui.widgets.vim import Vim
from support.screen_driver import running
from support.scripted_engine import ScriptedEngine


async def test_a_copy_that_goes_nowhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "1")  # this machine's clipboard would be the wrong one
    monkeypatch.setenv("TERM", "dumb")
    async with running(ScriptedEngine("Because.", can_chat=True), history=tmp_path / "history.db") as driver:
        (driver.app.workspace.home / "copied.txt").mkdir()
        driver.app.copy_to_clipboard("a text")
        await driver.until(lambda: driver.toasts, "the failure to be told")
        assert driver.toasts[-1].startswith("is a directory")


async def test_escape_right_behind_an_arrow_brings_the_theme_from_before_back() -> None:
    async with running(ScriptedEngine("Because.", can_chat=True)) as driver:
        before = driver.app.theme
        await driver.press("f2")
        await driver.until(lambda: isinstance(driver.app.screen, ThemePicker) and driver.app.screen.is_running)
        await driver.pilot.pause()
        for key in ("down", "down", "escape"):
            driver.app.post_message(events.Key(key, None))
        await driver.until(lambda: driver.app.screen is driver.screen)
        for _ in range(5):
            await driver.pilot.pause()
        assert driver.app.theme == before


class Page(App[None]):
    """A text with vim-like keys."""

    def compose(self) -> ComposeResult:
        yield TextArea("one two three four")


@pytest.mark.parametrize(
    ("keys", "column"), [("99999l", 1), ("9999w", 17), ("9999999999ul", 1), ("3w", 14), ("9999wb", 14), ("9w2b", 8)]
)
async def test_a_count_takes_no_longer_than_there_is_to_do(keys: str, column: int) -> None:
    app = Page()
    async with app.run_test() as pilot:
        area = app.query_one(TextArea)
        vim = Vim(area)
        vim.mode = "normal"
        for key in keys:
            vim.press(events.Key(key, key))
        await pilot.pause()
        assert area.cursor_location == (0, column)
