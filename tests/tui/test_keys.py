"""The user's own keys: vim-like ones, others from keys.toml, and where they are told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.content import Content

from chatapp.tui.chat.message import Answer, Said
from chatapp.tui.help.help import Help
from chatapp.tui.keys.key_line import Keys
from support.screen_driver import Driver, beginning, started
from support.scripted_engine import ScriptedEngine


@asynccontextmanager
async def with_keys(
    keys: str, engine: ScriptedEngine, *, size: tuple[int, int] = (80, 24), history: Path | None = None
) -> AsyncIterator[Driver]:
    """The app of a user with this keys.toml."""
    start = beginning(engine, "chatty" if engine.can_chat else "builtin", history=history)
    (start.home / "keys.toml").write_text(keys, encoding="utf-8")
    async with started(start, size=size) as driver:
        await driver.until(lambda: driver.pane.opened and driver.pane.dialogue, "the model to open")
        await driver.pilot.pause()
        yield driver
        engine.go.set()


def chatty(text: str = "Because.", **facts: int) -> ScriptedEngine:
    return ScriptedEngine(text, can_chat=True, pause_after=facts.get("pause_after"))


# Vim


async def test_vim_keys_edit_a_message_and_the_mode_is_to_be_seen() -> None:
    engine = chatty()
    async with with_keys("vim = true", engine) as driver:
        await driver.until(lambda: " INSERT " in driver.picture)
        await driver.type("one two")
        await driver.press("escape")
        await driver.until(lambda: " NORMAL " in driver.picture)
        await driver.press("0", "x", "2")
        await driver.until(lambda: " NORMAL 2 " in driver.picture)
        await driver.press("x", "A")
        await driver.type("!\n")
        await driver.until(lambda: driver.said and not driver.writing)
        assert engine.asked == ["two!"]


async def test_enter_sends_in_normal_mode_too() -> None:
    engine = chatty()
    async with with_keys("vim = true", engine) as driver:
        await driver.type("why?")
        await driver.press("escape", "enter")
        await driver.until(lambda: engine.asked == ["why?"] and not driver.writing)


async def test_vim_keys_edit_a_text_and_escape_stops_the_model_whatever_the_mode() -> None:
    engine = ScriptedEngine(" one two three", pause_after=2)
    async with with_keys("vim = true", engine) as driver:
        await driver.type("text")
        await driver.press("ctrl+j")
        await driver.wrote(2)
        await driver.press("escape")
        await driver.until(lambda: not driver.writing)
        assert driver.text == "text one two"
        await driver.until(lambda: " NORMAL " in driver.picture)
        await driver.press("0", "x", "u", "d", "d")
        assert driver.text == ""
        await driver.press("u")
        assert (driver.text, driver.written_by_model()) == ("text one two", " one two")


async def test_escape_leaves_insert_mode_before_it_leaves_an_edit() -> None:
    async with with_keys("vim = true", chatty()) as driver:
        await driver.type("one\n")
        await driver.until(lambda: driver.said and not driver.writing)
        driver.pane.query(Said).first().focus()
        await driver.press("e", "escape")
        assert driver.pane.outbox.editing and driver.pane.prompt.text == "one"
        await driver.press("escape")
        await driver.until(lambda: not driver.pane.outbox.editing)


async def test_vim_keys_move_through_messages_and_lists(tmp_path: Path) -> None:
    async with with_keys("vim = true", chatty(), size=(120, 40), history=tmp_path / "history.db") as driver:
        await driver.type("one\n")
        await driver.until(lambda: driver.said and not driver.writing)
        await driver.press("ctrl+n")
        await driver.type("two\n")
        await driver.until(lambda: driver.said and not driver.writing)
        driver.pane.query(Answer).last().focus()
        await driver.press("k")
        assert driver.app.focused is driver.pane.query(Said).first()
        await driver.press("ctrl+b")
        sidebar = driver.screen.sidebar
        assert sidebar and sidebar.has_focus
        there = sidebar.under_cursor
        await driver.press("G")
        await driver.until(lambda: sidebar.under_cursor != there)
        await driver.press("g")
        await driver.until(lambda: sidebar.under_cursor == there)
        driver.pane.query(Answer).last().focus()
        await driver.press("slash")
        await driver.until(lambda: "Words in any" in driver.picture)


async def test_without_the_option_letters_are_letters() -> None:
    async with with_keys("", ScriptedEngine()) as driver:
        await driver.press("escape", "x", "d", "d")
        assert driver.text == "xdd"
        assert "INSERT" not in driver.picture


# Other keys


async def test_a_key_of_the_users_own_works_and_is_told_in_the_footer_and_in_the_help() -> None:
    engine = ScriptedEngine(" more")
    keys = '"notebook.continue" = "ctrl+y"\n"chat.new" = "f11,f12"\n"chat.models" = "f20"\n'
    async with with_keys(keys, engine, size=(160, 40)) as driver:
        await driver.type("text")
        await driver.press("ctrl+j")
        assert not engine.asked
        await driver.press("ctrl+y")
        await driver.until(lambda: engine.asked == ["text"] and not driver.writing)
        await driver.until(lambda: " ^Y Continue " in driver.picture and " F20 Models " in driver.picture)
        assert "^J Continue" not in driver.picture
        await driver.press("f12")
        assert driver.text == ""
        await driver.press("f1")
        await driver.until(lambda: isinstance(driver.app.screen, Help))
        await driver.type("notebook.continue")
        await driver.until(lambda: "notebook.continue  ^Y, yours" in driver.picture)


async def test_keys_that_cannot_be_are_told_and_the_others_work() -> None:
    engine = ScriptedEngine()
    keys = '"chat.stpo" = "f12"\n"chat.new" = "ctrl+r"\n"chat.search" = "hyperspace"\n"chat.sidebar" = "f11"\n'
    async with with_keys(keys, engine, size=(120, 40)) as driver:
        assert len(driver.toasts) == 3
        stop, new, search = sorted(driver.toasts, key=lambda toast: ("stpo" not in toast, "chat.new" not in toast))
        assert "Unknown action chat.stpo; did you mean chat.stop?" in stop
        assert "chat.new cannot be ctrl+r, which is the key of chat.again; change that first" in new
        assert "chat.search: unknown key 'hyperspace'" in search
        await driver.press("f11")
        await driver.until(lambda: driver.screen.sidebar)


async def test_a_narrow_footer_has_first_what_people_need(monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_keys("", chatty("one two three", pause_after=2)) as driver:

        def footer() -> str:
            return driver.picture.splitlines()[-1]

        await driver.until(lambda: footer().startswith(" ⏎ Send "))
        keys = driver.screen.query_one(Keys)
        await driver.type("why?")
        await driver.until(lambda: "why?" in driver.picture)
        painted = keys.shown
        await driver.type(" oh")
        await driver.until(lambda: "why? oh" in driver.picture)
        await driver.pilot.pause()
        assert keys.shown is painted
        with monkeypatch.context() as patched:
            made = iter([Content("other keys".ljust(keys.size.width))])  # one line: for the look, and to be painted
            patched.setattr(Keys, "line", lambda _: next(made))
            keys.look_again(None)
            assert keys.render().plain.startswith("other keys")
        keys.look_again(None)
        await driver.press("enter")
        await driver.wrote(2)
        await driver.until(lambda: footer().startswith(" esc Stop  ⏎ Send "))
        assert footer().endswith("^P Commands ")
    async with with_keys("", ScriptedEngine(pause_after=2)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(2)
        await driver.until(lambda: footer().startswith(" esc Stop "))
        await driver.press("escape")
        await driver.until(lambda: footer().startswith(" ^J Continue "))
