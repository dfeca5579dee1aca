"""Vim-like keys: in a text, in lists and in pages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual import events
from textual.pilot import Pilot

from chatapp.tui.widgets.vim import Vim, steer
from support.comfort_page import Box, running

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
