"""The palette: every command, under the names people try, with its key, and what Enter makes of it."""

import re
from pathlib import Path

import pytest

from chatapp.commands.actions import ACTIONS, rank
from chatapp.tui.app import list_bindable
from chatapp.tui.help.command_palette import CommandPalette
from chatapp.tui.insight.heat import HeatScreen
from chatapp.tui.models.screen import ModelsScreen
from model_store import bandwidth
from support.screen_driver import Driver, running
from support.scripted_engine import ANSWER, ScriptedEngine

TRIED = {
    "New conversation": "new, clear, start over",
    "Conversations": "chats, list, history, sidebar",
    "Search all conversations": "search, find",
    "Models": "models, model, switch",
    "Sampling": "sampling, temperature, seed, /set",
    "Regenerate": "regenerate, retry, again",
    "Stop": "stop, cancel",
    "Continue": "cont, continue",
    "Fill the gap": "infill, fill",
    "Copy answer": "copy, clipboard",
    "Copy code": "copy code, code",
    "Edit question": "edit",
    "Fork": "fork, branch",
    "Undo": "undo",
    "Redo": "redo",
    "Undo a token": "undo token",
    "Export": "export, save, save as, html",
    "Rename": "rename, title",
    "Pin conversation": "pin, star",
    "Delete conversation": "delete, remove conversation",
    "Restore conversation": "restore, undelete",
    "Import": "import, chatgpt",
    "System prompt": "system prompt, system, instructions",
    "Presets": "preset",
    "Tokens": "heat, tokens, logprobs",
    "Latencies": "latencies, speed",
    "Several answers": "answers, n answers, several",
    "Compare models": "compare",
    "Download a model": "pull, download",
    "Verify a model": "verify",
    "Benchmark a model": "bench",
    "Remove a model": "rm",
    "Show model": "info",
    "Show prompt": "show prompt, raw",
    "Show licence": "license",
    "Mode: chat": "chat mode",
    "Mode: completion": "completion",
    "Temporary conversation": "private",
    "Attach a file": "file, attach",
    "Open in editor": "editor",
    "Show paste": "expand",
    "Jump": "jump",
    "Theme": "theme, colors, dark",
    "Theme: paper": "paper",
    "Help": "keys, shortcuts, help",
    "Screenshot": "screenshot",
    "Quit": "quit, exit",
}
"""What people type, and what they mean."""


def test_a_name_that_people_try_finds_its_command_first() -> None:
    rows = [*(action.called for action in ACTIONS), ("Theme: contrast",), ("Theme: paper",)]
    tried = [(meant, word) for meant, words in TRIED.items() for word in words.split(", ")]
    assert [(rows[rank(word, rows)[0]][0], word) for _, word in tried] == tried


def test_every_key_with_an_id_is_in_the_table_once_with_the_key_it_is_bound_to() -> None:
    bound = {one.id: one.keys for one in list_bindable()}
    own = [action.id for action in ACTIONS if action.id]
    there = [name for action in ACTIONS for name in action.place.split()]
    assert sorted([*own, *there]) == sorted(bound)
    assert not [action for action in ACTIONS if action.id and action.key not in bound[action.id]]
    assert {action.within for action in ACTIONS if action.within} <= set(own)


def test_no_two_entries_are_called_alike() -> None:
    assert len({action.title for action in ACTIONS}) == len(ACTIONS)


async def opened(driver: Driver, words: str = "") -> None:
    await driver.press("ctrl+p")
    await driver.until(lambda: isinstance(driver.app.screen, CommandPalette) and driver.app.screen.places.option_count)
    await driver.type(words)
    await driver.pilot.pause()


async def test_the_palette_shows_a_row_for_each_command_with_its_key_on_any_terminal(tmp_path: Path) -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True), size=(80, 24)) as driver:
        await opened(driver)
        rows = [" ".join(line.strip("▎│ ▁").split()) for line in driver.picture.splitlines()]
        assert "New conversation the current one stays in the list ^N" in rows
        assert not any("2 at once" in row for row in rows)
        await driver.type("rena")
        await driver.pilot.pause()
        assert re.search(r"Rename +give this conversation a title +\^B r", driver.picture)
        await driver.type("xyz")
        await driver.pilot.pause()
        await driver.until(lambda: "No command matches." in driver.picture)
        await driver.press("enter", "escape")
        await driver.until(lambda: driver.app.screen is driver.screen)
        await driver.pilot.resize_terminal(30, 8)
        await opened(driver, "quit")
        assert re.search(r"Quit.*\^Q", driver.picture)


async def test_enter_does_what_was_found(tmp_path: Path) -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True), history=tmp_path / "history.db") as driver:
        await driver.type("why?\n")
        await driver.answered()
        history = driver.screen.history
        assert history
        await opened(driver, "rename\n")
        await driver.until(lambda: "New title" in driver.picture)
        await driver.press("ctrl+u")
        await driver.type("Reasons\n")
        await driver.until(lambda: history.list()[0].title == "Reasons")
        await opened(driver, "fork\n")
        await driver.until(lambda: len(history.list()) == 2)
        await opened(driver, "delete\n")
        await driver.until(lambda: len(history.list()) == 1)
        assert driver.pane.prompt.has_focus
        await opened(driver, "undelete\n")
        await driver.until(lambda: len(history.list()) == 2)
        await driver.type("once more")
        await opened(driver, "undo\n")
        await driver.until(lambda: driver.pane.prompt.text != "once more")
        await opened(driver, "paper\n")
        await driver.until(lambda: driver.app.theme == "paper")


async def test_over_another_screen_its_own_commands_come_first_and_the_others_leave_it() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True)) as driver:
        await driver.type("why?\n")
        await driver.answered()
        await driver.press("ctrl+t")
        await driver.until(lambda: isinstance(driver.app.screen, HeatScreen))
        await opened(driver)
        palette = driver.app.screen
        assert isinstance(palette, CommandPalette) and palette.commands[0].does == "here"
        here = [command.title for command in palette.commands if command.does == "here"]
        assert "Alternatives" in here and len(set(here)) == len(here)
        await driver.type("system prompt\n")
        await driver.until(lambda: type(driver.app.screen).__name__ == "SystemPromptScreen")
        assert not any(isinstance(screen, HeatScreen) for screen in driver.app.screen_stack)


async def test_what_cannot_be_done_now_is_said() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True)) as driver:
        await opened(driver, "continue\n")
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["Continue: not possible right now."]


@pytest.mark.parametrize("can_chat", [True, False])
async def test_every_entry_of_the_palette_works(can_chat: bool, tmp_path: Path) -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=can_chat), history=tmp_path / "history.db") as driver:
        await driver.type("why?" + "\n" * can_chat)
        if not can_chat:
            await driver.press("ctrl+j")
        await driver.answered()
        left_out = ("Quit", "Screenshot", "Open in editor")
        for action in [one for one in ACTIONS if can_chat or one.run.startswith(("box.", "screen.version"))]:
            if action.title in left_out:
                continue
            driver.screen.call_next(driver.app.perform, action)
            await driver.pilot.pause()
            await driver.until(lambda: not driver.writing)
            assert driver.app._exception is None, action.title
            while driver.app.screen is not driver.screen:
                driver.app.pop_screen()
                await driver.pilot.pause()
            await driver.pane.end_columns()


async def test_who_wants_to_download_a_model_is_shown_a_recommended_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "measure", lambda: 20e9)  # a busy machine may seem too slow for any
    async with running(ScriptedEngine(ANSWER, can_chat=True), size=(120, 40)) as driver:
        await driver.press("ctrl+p")
        await driver.type("download")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, ModelsScreen))
        assert isinstance(screen := driver.app.screen, ModelsScreen)
        await driver.until(lambda: (row := screen.listing.selected) and row.recommended and row.kind == "chat")
