"""What makes the screen pleasant: the picker of themes, help, jumping."""

from pathlib import Path

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

import themes
from chatapp.settings import keymap
from chatapp.settings.keymap import Action
from chatapp.tui.help.help import Help, actions, sections
from chatapp.tui.help.theme_picker import ThemePicker
from chatapp.tui.keys.jump import Jump
from support.comfort_page import Box, Host, Page, running

# Themes


async def test_a_theme_is_shown_while_it_is_under_the_cursor_and_enter_keeps_it() -> None:
    async with running("midnight") as (app, pilot):
        await app.push_screen(ThemePicker(themes.load().values()), app.keep)
        await pilot.pause()
        assert app.screen.query_one(OptionList).highlighted == list(themes.load()).index("midnight")
        await pilot.press("down")
        assert (app.theme, app.result) == ("mist", "nothing yet")
        await pilot.press("enter")
        assert (app.theme, app.result) == ("mist", "mist")


async def test_escape_brings_the_theme_from_before_back() -> None:
    async with running("paper") as (app, pilot):
        await app.push_screen(ThemePicker(themes.load().values()), app.keep)
        await pilot.press("up", "up", "up")
        assert app.theme != "paper"
        await pilot.press("escape")
        assert (app.theme, app.result) == ("paper", None)


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_every_theme_can_be_reached_on_any_screen(size: tuple[int, int]) -> None:
    async with running("contrast", size) as (app, pilot):
        await app.push_screen(ThemePicker(themes.load().values()), app.keep)
        await pilot.pause()
        await pilot.press("end")
        assert app.theme == list(themes.load())[-1]
        options = app.screen.query_one(OptionList)
        assert options.region.bottom < app.size.height
        assert options.scroll_offset.y == options.max_scroll_y


# Help


def help_of(app: Host, chosen: dict[str, str] | None = None) -> Help:
    return Help(sections(app.screen_stack[0], chosen or {}), "/home/me/keys.toml")


def shown(app: Host) -> str:
    return str(app.screen.query_one(Static).render())


async def test_help_tells_the_live_keys_where_they_work_and_their_ids() -> None:
    async with running() as (app, pilot):
        await app.push_screen(help_of(app, {"chat.stop": "ctrl+s,f2"}))
        await pilot.pause()
        lines = [line.split() for line in shown(app).splitlines()]
        assert ["^s", "f2", "Stop:", *["stop", "the", "answer,", "keep", "its", "text"]] in lines
        assert ["^r", "Regenerate:", *["another", "version", "of", "the", "last", "answer"]] in lines
        assert ["^j", "shift+⏎", "New", "line"] in lines
        assert lines.index(["box.newline", "^j", "shift+⏎"]) > lines.index(["Mouse"])
        assert lines[-3] == ["app.quit", "^q"] and ["chat.stop", "^s", "f2,", "yours"] in lines
        assert ["/clear", "start", "a", "new", "conversation"] in lines
        titles = [line[0] for line in lines if len(line) == 1]
        assert titles == ["Page", "Prompt", "Everywhere", "Basics", "Commands", "Mouse"]
        assert not any("Focus" in line for line in lines)
        assert "secret" not in shown(app)
        assert "/home/me/keys.toml" in shown(app)


async def test_what_is_typed_filters_the_help_by_key_words_and_id() -> None:
    async with running() as (app, pilot):
        await app.push_screen(help_of(app))
        for words, found in (
            ("another version", "Regenerate"),
            ("BOX.new", "box.newline"),
            ("colours change", "/theme"),
        ):
            app.screen.query_one(Input).value = words
            await pilot.pause()
            assert found in shown(app)
            assert "Stop" not in shown(app)
        app.screen.query_one(Input).value = "whale"
        await pilot.pause()
        assert "Nothing matches." in shown(app)


async def test_help_scrolls_while_its_user_types_and_escape_leaves_it() -> None:
    async with running() as (app, pilot):
        await app.push_screen(help_of(app))
        await pilot.press("pagedown", "down")
        assert app.screen.query_one(VerticalScroll).scroll_offset.y == 13
        await pilot.press("up", "escape")
        assert isinstance(app.screen, Page)


def test_every_action_with_an_id_is_known_with_its_keys_and_place() -> None:
    found = actions(Page, Box)
    assert Action("chat.stop", ("escape",), "Page") in found
    assert Action("box.newline", ("ctrl+j", "shift+enter"), "Box") in found


async def test_a_clash_is_seen_in_the_actions_of_real_classes(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('chat.stop = "ctrl+r"\nbox.newline = "ctrl+r"')
    found = keymap.read(path, actions(Page, Box))
    assert found.keys == {"box.newline": "ctrl+r"}
    assert found.complaints[0].startswith("chat.stop cannot be ctrl+r, which is the key of chat.again")


# Jumping


async def jump(app: Host, pilot: Pilot[None]) -> tuple[Widget, Widget]:
    targets = (app.screen.query_one(OptionList), app.screen.query_one(Box))
    await app.push_screen(Jump(targets), app.keep)
    await pilot.pause()
    return targets


async def test_a_letter_stands_on_each_place_and_pressing_it_gives_that() -> None:
    async with running() as (app, pilot):
        options, box = await jump(app, pilot)
        marks = {str(mark.render()): mark.region.offset for mark in app.screen.query(Static)}
        assert marks == {"A": options.region.offset, "S": box.region.offset}
        await pilot.press("s")
        assert app.result is box
        assert isinstance(app.screen, Page)


async def test_a_click_on_the_letter_jumps_too() -> None:
    async with running() as (app, pilot):
        options, _ = await jump(app, pilot)
        await pilot.click(offset=options.region.offset + (2, 0))
        assert app.result is options


@pytest.mark.parametrize("key", ["escape", "q", "enter", "space"])
async def test_any_other_key_stays_where_one_was(key: str) -> None:
    async with running() as (app, pilot):
        await jump(app, pilot)
        await pilot.press(key)
        assert app.result is None
        assert isinstance(app.screen, Page)


async def test_letters_leave_when_the_screen_changes_its_size() -> None:
    async with running() as (app, pilot):
        await jump(app, pilot)
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert app.result is None


async def test_what_cannot_be_seen_gets_no_letter() -> None:
    async with running() as (app, pilot):
        app.screen.query_one(OptionList).display = False
        await pilot.pause()
        _, box = await jump(app, pilot)
        await pilot.press("a")
        assert app.result is box
