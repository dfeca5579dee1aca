"""What makes the screen pleasant: the picker of themes, help, jumping, vim-like keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static, TextArea

import themes
from chatapp import keymap
from chatapp.keymap import Action
from chatapp.tui.comfort.help import Help, actions, sections
from chatapp.tui.comfort.jump import Jump
from chatapp.tui.comfort.theme_picker import ThemePicker
from chatapp.tui.comfort.vim import Vim, steer
from chatapp.tui.palette import palette


class Box(TextArea):
    """A text that can have vim-like keys."""

    BINDING_GROUP_TITLE = "Prompt"
    BINDINGS = [Binding("ctrl+j,shift+enter", "newline", "New line", id="box.newline")]
    vim: Vim | None = None

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]  # TextArea's runs after it, by itself
        if self.vim and self.vim.press(event):
            event.stop()
            event.prevent_default()


class Page(Screen[None]):
    """Something to look at."""

    BINDINGS = [
        Binding("escape", "stop", "Stop", id="chat.stop"),
        Binding("ctrl+r", "again", "Again", id="chat.again"),
        Binding("ctrl+t", "secret", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Static("above")
        yield OptionList("one", "two", "three")
        yield Box()


class Host(App[None]):
    """An app with our themes."""

    CSS = "Page { background: $background; color: $text; } Page Box { height: 8; } Page OptionList { height: 5; }"
    BINDINGS = [Binding("ctrl+q", "quit", "Quit", priority=True, id="app.quit")]
    result: object = "nothing yet"

    def __init__(self, theme: str = "midnight") -> None:
        super().__init__()
        for ours in themes.load().values():
            self.register_theme(palette(ours))
        self.theme = theme

    def get_default_screen(self) -> Screen[None]:
        return Page()

    @property
    def box(self) -> Box:
        return self.screen_stack[0].query_one(Box)

    def keep(self, result: object) -> None:
        self.result = result


@asynccontextmanager
async def running(theme: str = "midnight", size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Host, Pilot[None]]]:
    app = Host(theme)
    async with app.run_test(size=size) as pilot:
        yield app, pilot


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
        assert ["^s", "f2", "Stop", "chat.stop,", "yours"] in lines
        assert ["^r", "Again", "chat.again"] in lines
        assert ["^j", "shift+⏎", "New", "line", "box.newline"] in lines
        assert ["/clear", "begin", "another", "conversation"] in lines
        titles = [line[0] for line in lines if len(line) == 1]  # but "Option list", which comes behind these
        assert titles == ["Page", "Prompt", "Everywhere", "Commands", "Mouse"]
        assert lines.index(["Page"]) + 1 == lines.index(["^s", "f2", "Stop", "chat.stop,", "yours"])
        assert "secret" not in shown(app)
        assert "/home/me/keys.toml" in shown(app)


async def test_what_is_typed_filters_the_help_by_key_words_and_id() -> None:
    async with running() as (app, pilot):
        await app.push_screen(help_of(app))
        for words, found in (("again", "chat.again"), ("BOX.new", "New line"), ("colours change", "/theme")):
            app.screen.query_one(Input).value = words
            await pilot.pause()
            assert found in shown(app)
            assert "Stop" not in shown(app)
        app.screen.query_one(Input).value = "whale"
        await pilot.pause()
        assert "Nothing is called so." in shown(app)


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
    assert found.complaints[0].startswith("chat.stop cannot be ctrl+r: that is chat.again")


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


# Vim-like keys

TEXT = "def add(a, b):\n    return a + b\n\nprint(add(1, 2))"


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ("", (0, 0)),
        ("l l", (0, 2)),
        ("3 l h", (0, 2)),
        ("9 9 l", (0, 13)),
        ("j", (1, 0)),
        ("9 j", (3, 0)),
        ("9 j k", (2, 0)),
        ("w", (0, 4)),
        ("w w", (0, 7)),
        ("3 w b", (0, 7)),
        ("9 w", (1, 13)),
        ("1 0 w", (1, 15)),
        ("1 1 w", (2, 0)),
        ("9 9 w", (3, 15)),
        ("$", (0, 13)),
        ("2 $", (1, 15)),
        ("$ j", (1, 13)),
        ("$ 0", (0, 0)),
        ("G", (3, 0)),
        ("2 G", (1, 0)),
        ("G g g", (0, 0)),
        ("3 g g", (2, 0)),
        ("9 9 G", (3, 0)),
        ("z l", (0, 1)),
        ("2 escape l", (0, 1)),
    ],
)
async def test_the_cursor_moves_as_fingers_expect(keys: str, place: tuple[int, int]) -> None:
    async with editing(TEXT) as (box, pilot):
        await press(pilot, keys)
        assert box.cursor_location == place
        assert box.text == TEXT


@pytest.mark.parametrize(
    ("keys", "text", "place"),
    [
        ("x", "ne\ntwo\nthree", (0, 0)),
        ("3 x", "\ntwo\nthree", (0, 0)),
        ("$ x", "on\ntwo\nthree", (0, 1)),
        ("d d", "two\nthree", (0, 0)),
        ("2 d d", "three", (0, 0)),
        ("9 d d", "", (0, 0)),
        ("G d d", "one\ntwo", (1, 0)),
        ("d d p", "two\none\nthree", (1, 0)),
        ("y y p", "one\none\ntwo\nthree", (1, 0)),
        ("2 y y G p", "one\ntwo\nthree\none\ntwo", (3, 0)),
        ("y y 2 p", "one\none\none\ntwo\nthree", (1, 0)),
        ("2 x p", "eon\ntwo\nthree", (0, 2)),
        ("p", "one\ntwo\nthree", (0, 0)),
        ("d d u", "one\ntwo\nthree", (0, 0)),
        ("d d u ctrl+r", "two\nthree", (0, 0)),
        ("d w", "one\ntwo\nthree", (0, 0)),
        ("i Z escape", "Zone\ntwo\nthree", (0, 0)),
        ("a Z escape", "oZne\ntwo\nthree", (0, 1)),
        ("A Z escape", "oneZ\ntwo\nthree", (0, 3)),
        ("$ I Z escape", "Zone\ntwo\nthree", (0, 0)),
        ("o Z escape", "one\nZ\ntwo\nthree", (1, 0)),
        ("j O Z escape", "one\nZ\ntwo\nthree", (1, 0)),
    ],
)
async def test_the_text_changes_as_fingers_expect(keys: str, text: str, place: tuple[int, int]) -> None:
    async with editing("one\ntwo\nthree") as (box, pilot):
        await press(pilot, keys)
        assert (box.text, box.cursor_location) == (text, place)


@asynccontextmanager
async def editing(text: str) -> AsyncIterator[tuple[Box, Pilot[None]]]:
    """A text in normal mode, the cursor at its beginning."""
    async with running() as (app, pilot):
        app.box.load_text(text)
        app.box.vim = Vim(app.box)
        app.box.focus()
        await pilot.press("escape")
        yield app.box, pilot


async def press(pilot: Pilot[None], keys: str) -> None:
    names = {"$": "dollar_sign"}
    await pilot.press(*(names.get(key, key) for key in keys.split()))


async def test_typing_comes_first_and_the_indicator_tells_the_mode() -> None:
    async with running() as (app, pilot):
        app.box.vim = vim = Vim(app.box)
        app.box.focus()
        await pilot.press("j", "k")
        assert (app.box.text, vim.indicator) == ("jk", "INSERT")
        await pilot.press("escape", "2", "d")
        assert (app.box.text, vim.indicator) == ("jk", "NORMAL 2d")
        await pilot.press("d", "i")
        assert (app.box.text, vim.indicator) == ("", "INSERT")


async def test_escape_in_normal_mode_is_left_to_the_screen() -> None:
    async with editing("one") as (box, _):
        assert box.vim is not None
        assert not box.vim.press(events.Key("escape", None))
        assert not box.vim.press(events.Key("enter", "\r"))


async def test_a_text_that_is_only_read_is_not_changed() -> None:
    async with editing("one\ntwo") as (box, pilot):
        box.read_only = True
        await press(pilot, "x d d y y p o Z escape O Z escape")
        assert box.text == "one\ntwo"


@pytest.mark.parametrize(
    ("character", "key"), [("j", "down"), ("k", "up"), ("g", "home"), ("G", "end"), ("/", "ctrl+f"), ("x", None)]
)
def test_lists_and_pages_are_steered_with_letters(character: str, key: str | None) -> None:
    assert steer(events.Key(character, character), search="ctrl+f") == key


def test_a_list_without_a_search_has_no_key_for_it() -> None:
    assert steer(events.Key("slash", "/")) is None
