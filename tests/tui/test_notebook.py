"""The notebook: a text that its reader and the model write together."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from chatapp.generation import Options
from chatapp.tui.insight.heat import HeatScreen
from chatapp.tui.sampling.fields import FIELDS
from support.patience import PATIENCE
from support.screen_driver import EXAMPLE, Driver, running
from support.scripted_engine import FIBONACCI, ScriptedEngine


async def test_tab_takes_the_example_and_the_model_continues_it_in_place() -> None:
    engine = ScriptedEngine()
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        assert engine.asked == [EXAMPLE]
        assert driver.text == EXAMPLE + FIBONACCI
        assert driver.written_by_model() == FIBONACCI
        assert driver.state == "● done"
        assert driver.figures.usage is not None


@pytest.mark.parametrize("by", ["its user", "the model"])
async def test_what_an_older_text_took_is_not_told_after_a_newer_one_was_written(by: str) -> None:
    async with running(ScriptedEngine("er text", pause_after=1)) as driver:
        page, began, go = driver.pane.completion_page, Event(), Event()

        def count(text: str) -> int:
            if text == "old":
                began.set()
                go.wait(PATIENCE)
            return len(text)

        page.count_tokens = count
        page.load_text("old")
        await driver.until(began.is_set)
        if by == "its user":
            page.load_text("newer")
            await driver.until(lambda: driver.pane.heading.used == len("newer"))
        else:
            await driver.press("ctrl+j")
            await driver.until(lambda: driver.text == "older")
            await driver.press("escape")
            await driver.until(lambda: not driver.writing)
        go.set()
        await driver.app.workers.wait_for_complete()
        await driver.pilot.pause()
        assert driver.pane.heading.used != len("old")


async def test_the_edited_text_is_continued_again() -> None:
    engine = ScriptedEngine("    pass")
    async with running(engine) as driver:
        await driver.type("def f():\n")
        await driver.press("ctrl+j")
        await driver.answered()
        await driver.type("\n# more\n")
        await driver.press("f5")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        assert engine.asked[1] == "def f():\n    pass\n# more\n"
        assert driver.text == "def f():\n    pass\n# more\n    pass"
        assert driver.written_by_model() == "    pass    pass"


async def test_undo_takes_a_whole_continuation_back_and_redo_brings_it_again() -> None:
    async with running(ScriptedEngine(delay=0.004)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        await driver.press("ctrl+z")
        assert (driver.text, driver.written_by_model()) == (EXAMPLE, "")
        await driver.press("ctrl+y")
        assert (driver.text, driver.written_by_model()) == (EXAMPLE + FIBONACCI, FIBONACCI)
        await driver.press("ctrl+z", "ctrl+z")
        assert driver.text == ""


async def test_who_wrote_what_survives_edits_and_undo() -> None:
    async with running(ScriptedEngine(" one two\n three four")) as driver:
        await driver.type("zero")
        await driver.press("ctrl+j")
        await driver.answered()
        notebook = driver.pane.completion_page
        notebook.replace("AND\nMORE", (0, 6), (1, 3))  # zero o AND / MORE ree four
        assert driver.text == "zero oAND\nMOREree four"
        assert driver.written_by_model() == " oree four"
        await driver.press("ctrl+z")
        assert driver.written_by_model() == " one two\n three four"


async def test_again_replaces_the_last_continuation_and_changes_a_fixed_seed() -> None:
    engine = ScriptedEngine(" more", defaults=Options(seed=5))
    async with running(engine) as driver:
        await driver.type("text")
        await driver.press("ctrl+j")
        await driver.answered()
        await driver.press("ctrl+r")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        assert engine.asked == ["text", "text"]
        assert [options.seed for options in engine.options] == [5, 6]
        assert driver.text == "text more"


async def test_the_gap_at_the_cursor_is_filled() -> None:
    engine = ScriptedEngine("return a + b")
    async with running(engine) as driver:
        await driver.type("def add(a, b):\n    \n\nprint(1)")
        assert not driver.pane.completion_page.check_action("fill_gap", ())
        await driver.press("up", "up", "end", "ctrl+f")
        await driver.answered()
        assert engine.asked == ["def add(a, b):\n    <gap>\n\nprint(1)"]
        assert driver.text == "def add(a, b):\n    return a + b\n\nprint(1)"
        await driver.press("ctrl+r")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        assert driver.text == "def add(a, b):\n    return a + b\n\nprint(1)"


async def test_a_continuation_pauses_unless_its_length_was_chosen() -> None:
    engine = ScriptedEngine(FIBONACCI * 5)
    async with running(engine) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        assert driver.figures.tokens == engine.options[0].max_tokens == 128
        assert driver.state == "■ max_tokens reached, ^J continues"


async def test_the_drawer_shows_after_how_many_tokens_a_text_pauses() -> None:
    engine = ScriptedEngine(FIBONACCI * 5)
    async with running(engine) as driver:
        await driver.screen.view.toggle_drawer()
        drawer = driver.screen.drawer
        assert drawer
        await driver.until(lambda: drawer.size.height)
        (row,) = (line for line in drawer.render().plain.split("\n") if "max_tokens" in line)
        assert row.endswith(" 128 ")
        drawer.action_walk(next(place for place, field in enumerate(FIELDS) if field.name == "max_tokens"))
        for _ in range(9):  # beyond the last value there is no limit
            drawer.action_move(1)
        await driver.until(lambda: driver.pane.dialogue and driver.pane.dialogue.setup.options == {"max_tokens": 8192})
        assert driver.pane.dialogue
        driver.pane.dialogue.change(replace(driver.pane.dialogue.setup, options={"max_tokens": None}))
        driver.screen.view.show_setup()
        assert drawer.options.max_tokens == 128
        await driver.screen.view.close_drawer()


async def test_new_begins_an_empty_page() -> None:
    async with running(ScriptedEngine()) as driver:
        assert driver.pane.welcome.display
        await driver.type("text")
        assert not driver.pane.welcome.display
        await driver.press("ctrl+n")
        assert driver.text == ""
        assert driver.pane.welcome.display


# Kept, reopened, and walked through


async def continued(driver: Driver, engine: ScriptedEngine, *keys: str) -> None:
    """Press what lets the model write, and wait for the end."""
    times = len(engine.asked)
    await driver.press(*(keys or ("ctrl+j",)))
    await driver.until(lambda: len(engine.asked) == times + 1 and not driver.writing, "the model to write")


async def opened(driver: Driver, text: str) -> None:
    await driver.until(lambda: driver.text == text, f"{text!r}, not {driver.text!r}")


async def test_a_text_is_kept_with_who_wrote_what_also_where_its_user_changed_the_models_words(tmp_path: Path) -> None:
    engine, path = ScriptedEngine(" one two\n three four"), tmp_path / "history.db"
    async with running(engine, history=path) as driver:
        await driver.type("zero")
        await continued(driver, engine)
        driver.pane.completion_page.replace("AND\nMORE", (0, 6), (1, 3))
        assert (driver.text, driver.written_by_model()) == ("zero oAND\nMOREree four", " oree four")
    async with running(engine, history=path) as driver:
        await opened(driver, "zero oAND\nMOREree four")
        assert driver.written_by_model() == " oree four"
        await continued(driver, engine)
        assert engine.asked[-1] == "zero oAND\nMOREree four"
        assert driver.screen.history and [one.kind for one in driver.screen.history.list()] == ["completion"]
        driver.pane.completion_page.undo()
        await driver.press("ctrl+up")
    async with running(engine, history=path) as driver:
        await opened(driver, "zero oAND\nMOREree four")


async def test_what_was_only_typed_is_there_again_at_the_next_start(tmp_path: Path) -> None:
    engine, path = ScriptedEngine(), tmp_path / "history.db"
    for more in ("def", " f(x)", ":"):
        async with running(engine, history=path) as driver:
            await driver.until(lambda: driver.screen.history_tried)
            await driver.press("ctrl+end")
            await driver.type(more)
    async with running(engine, history=path) as driver:
        await opened(driver, "def f(x):")
        assert driver.screen.history
        (one,) = driver.screen.history.list()
        assert [message.text for message in driver.screen.history.tree(one.id)] == ["def f(x):"]


async def test_versions_of_a_continuation_are_walked_through_also_after_reopening(tmp_path: Path) -> None:
    engine, path = ScriptedEngine(turns=[" a", " b", " c"]), tmp_path / "history.db"
    async with running(engine, history=path) as driver:
        await driver.type("text")
        await continued(driver, engine)
        await continued(driver, engine, "ctrl+r")
        assert driver.text == "text b"
        await driver.until(lambda: "‹ 2 / 2 ›" in driver.picture)
        await driver.press("ctrl+up")
        assert (driver.text, driver.written_by_model()) == ("text a", " a")
        await driver.until(lambda: "‹ 1 / 2 ›" in driver.picture)
    async with running(engine, history=path) as driver:
        await opened(driver, "text a")
        await driver.press("ctrl+down")
        await opened(driver, "text b")
        await continued(driver, engine, "ctrl+r")
        assert (engine.asked, driver.text) == (["text"] * 3, "text c")
        await driver.until(lambda: "‹ 3 / 3 ›" in driver.picture)
        await driver.press("ctrl+up", "ctrl+up", "ctrl+up")
        await opened(driver, "text a")
        await driver.press("ctrl+z")
        await opened(driver, "text b")


async def test_walking_keeps_what_was_typed_behind_a_continuation() -> None:
    engine = ScriptedEngine(turns=[" a", " b"])
    async with running(engine) as driver:
        await driver.type("text")
        await continued(driver, engine)
        await continued(driver, engine, "ctrl+r")
        await driver.type(", mine")
        await driver.press("ctrl+up")
        await opened(driver, "text a")
        await driver.press("ctrl+down")
        await opened(driver, "text b, mine")
        assert driver.written_by_model() == " b"


async def test_several_continuations_stand_side_by_side_and_one_is_kept(tmp_path: Path) -> None:
    engine, path = ScriptedEngine(texts=[" a", " b", " c"]), tmp_path / "history.db"
    async with running(engine, history=path, size=(120, 40)) as driver:
        await driver.type("text")
        await continued(driver, engine, "f7", "3")
        assert driver.pane.columns and engine.options[0].n == 3
        await driver.press("right", "enter")
        await driver.until(lambda: not driver.pane.columns)
        assert (driver.text, driver.written_by_model()) == ("text b", " b")
        assert driver.pane.completion_page.has_focus and driver.pane.completion_page.display
        await driver.press("ctrl+down")
        await opened(driver, "text c")
        await continued(driver, engine, "f7", "2")
        assert engine.asked == ["text", "text c"]
    async with running(engine, history=path) as driver:
        await opened(driver, "text c a")


async def test_again_with_columns_open_keeps_the_likeliest_and_adds_a_version() -> None:
    engine = ScriptedEngine(texts=[" a", " b"])
    async with running(engine, size=(120, 40)) as driver:
        await driver.type("text")
        await continued(driver, engine, "f7", "2")
        await continued(driver, engine, "ctrl+r")
        assert not driver.pane.columns and driver.pane.completion_page.display
        assert engine.asked == ["text", "text"]
        await driver.until(lambda: "‹ 3 / 3 ›" in driver.picture)


async def tokens_shown(driver: Driver) -> str:
    """The text of the tokens that ctrl+t shows; nothing where it shows none."""
    before = driver.toasts
    await driver.press("ctrl+t")
    await driver.until(lambda: isinstance(driver.app.screen, HeatScreen) or driver.toasts != before)
    if not isinstance(screen := driver.app.screen, HeatScreen):
        return ""
    found = "".join(token.text for token in screen.tokens)
    await driver.press("escape")
    await driver.until(lambda: driver.app.screen is driver.screen)
    return found


async def test_tokens_and_versions_are_those_of_the_text_whatever_is_undone(tmp_path: Path) -> None:
    engine = ScriptedEngine(turns=[" a b", " c d", " e f"])
    async with running(engine, history=tmp_path / "history.db", size=(120, 40)) as driver:
        await driver.type("text")
        for key in ("ctrl+j", "ctrl+r", "ctrl+r"):
            await continued(driver, engine, key)
        await driver.press("ctrl+up", "ctrl+up", "ctrl+down")
        for key, text, version in (
            ("ctrl+z", "text a b", "‹ 1 / 3 ›"),
            ("ctrl+z", "text c d", "‹ 2 / 3 ›"),
            ("ctrl+z", "text e f", "‹ 3 / 3 ›"),
            ("ctrl+z", "text", ""),
            ("ctrl+y", "text e f", "‹ 3 / 3 ›"),
            ("ctrl+underscore", "text e", ""),
            ("backspace", "text ", ""),
            ("ctrl+z", "text e", ""),
        ):
            await driver.press(key)
            await opened(driver, text)
            assert driver.pane.completion_page.mark == version
            tokens = await tokens_shown(driver)
            assert f"text{tokens}" in (text, text.rstrip())
        await driver.press("ctrl+t")
        await driver.until(lambda: isinstance(driver.app.screen, HeatScreen))
        engine.turns = [" end"]
        await driver.press("1")
        await driver.until(lambda: len(engine.asked) == 4 and not driver.writing)
        assert engine.asked[3].startswith("text") and driver.text == engine.asked[3] + " end"


async def test_the_cursor_stands_at_the_end_of_what_undo_brings_back(tmp_path: Path) -> None:
    engine = ScriptedEngine(turns=[" a b\nc", " d e"])
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("text")
        await continued(driver, engine)
        await continued(driver, engine, "ctrl+r")
        await driver.press("ctrl+up")
        for text in "text d e", "text":
            await driver.press("ctrl+z")
            await opened(driver, text)
            assert driver.pane.completion_page.place == len(text)
        await driver.type("!")
        await opened(driver, "text!")


async def test_ctrl_home_and_ctrl_end_go_to_the_ends_of_the_text() -> None:
    async with running(ScriptedEngine()) as driver:
        page = driver.pane.completion_page
        page.load_text("one\ntwo")
        await driver.press("end", "ctrl+home")
        assert page.cursor_location == (0, 0)
        await driver.press("ctrl+end")
        assert page.cursor_location == page.document.end
        await driver.press("ctrl+shift+home")
        assert page.selected_text == page.text
        await driver.press("ctrl+home", "ctrl+shift+end")
        assert page.selected_text == page.text


async def test_the_last_line_is_cut_whole_and_is_whose_it_was_when_it_is_back() -> None:
    async with running(ScriptedEngine(" two")) as driver:
        await driver.type("one\nand")
        await driver.press("ctrl+j")
        await driver.answered()
        await driver.press("ctrl+x", "ctrl+k")
        assert (driver.text, driver.written_by_model()) == ("one\n", "")
        await driver.press("ctrl+z")
        assert (driver.text, driver.written_by_model()) == ("one\nand two", " two")


async def test_a_token_is_taken_back_after_undo_and_redo_and_after_a_walk(tmp_path: Path) -> None:
    engine = ScriptedEngine(turns=[" a b", " c d"])
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("text")
        await continued(driver, engine)
        await continued(driver, engine, "ctrl+r")
        for keys in ("ctrl+up", "ctrl+z"), ("ctrl+z", "ctrl+z", "ctrl+y"):
            await driver.press(*keys)
            await opened(driver, "text c d")
            await driver.press("ctrl+underscore")
            await opened(driver, "text c")
        assert not driver.toasts


async def test_what_filled_a_gap_is_reopened_between_its_texts(tmp_path: Path) -> None:
    engine, path = ScriptedEngine(turns=["return a + b", "return b"]), tmp_path / "history.db"
    async with running(engine, history=path) as driver:
        await driver.type("def add(a, b):\n    \n\nprint(1)")
        await driver.press("up", "up", "end")
        await continued(driver, engine, "ctrl+f")
        await continued(driver, engine, "ctrl+r")
        assert driver.text == "def add(a, b):\n    return b\n\nprint(1)"
    async with running(engine, history=path) as driver:
        await opened(driver, "def add(a, b):\n    return b\n\nprint(1)")
        assert driver.written_by_model() == "return b"
        await driver.press("ctrl+up")
        await opened(driver, "def add(a, b):\n    return a + b\n\nprint(1)")
        assert driver.written_by_model() == "return a + b"


# Back to a token


async def test_tokens_are_taken_back_one_by_one_and_the_text_goes_on_from_there(tmp_path: Path) -> None:
    engine, path = ScriptedEngine(" one two three"), tmp_path / "history.db"
    async with running(engine, history=path) as driver:
        await driver.type("text")
        await continued(driver, engine)
        await driver.press("ctrl+underscore")
        assert (driver.text, driver.written_by_model()) == ("text one two thre", " one two thre")
        await driver.press("ctrl+underscore", "ctrl+underscore")
        assert driver.text == "text one"
    async with running(engine, history=path) as driver:
        await opened(driver, "text one")
        await driver.press("ctrl+underscore", "ctrl+underscore")
        assert driver.text == "text"
        assert driver.toasts == ["The text does not end with the model's last token."]
        await driver.press("ctrl+z")
        assert driver.text == "text one"
        engine.turns = [" uno dos"]
        await continued(driver, engine)
        assert engine.asked[-1] == "text one"


async def test_going_on_from_a_token_is_another_version_of_the_continuation(tmp_path: Path) -> None:
    engine = ScriptedEngine(" one two three")
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("text")
        await continued(driver, engine)
        await driver.press("ctrl+underscore", "ctrl+underscore")
        engine.turns = [" TOO"]
        await continued(driver, engine)
        assert (engine.asked[-1], driver.text) == ("text one two", "text one two TOO")
        assert driver.written_by_model() == " one two TOO"
        await driver.press("ctrl+underscore")
        assert driver.text == "text one two"
        await driver.press("ctrl+up")
        await opened(driver, "text one two three")


async def test_a_token_that_was_partly_deleted_is_taken_back_first() -> None:
    engine = ScriptedEngine(" one two")
    async with running(engine) as driver:
        await driver.type("text")
        await continued(driver, engine)
        await driver.press("backspace", "ctrl+underscore")
        assert driver.text == "text one"
        await driver.type("!")
        await driver.press("ctrl+underscore")
        assert driver.text == "text one!" and driver.toasts


async def test_the_tokens_of_what_fills_a_gap_are_taken_back_and_it_goes_on_before_what_follows() -> None:
    engine = ScriptedEngine("return a + b")
    async with running(engine) as driver:
        await driver.type("def f():\n    \n\nprint(1)")
        await driver.press("up", "up", "end")
        await continued(driver, engine, "ctrl+f")
        await driver.press("ctrl+underscore", "ctrl+underscore")
        assert driver.text == "def f():\n    return a\n\nprint(1)"
        engine.turns = [" - b"]
        await continued(driver, engine, "ctrl+f")
        assert engine.asked[-1] == "def f():\n    return a<gap>\n\nprint(1)"
        assert driver.text == "def f():\n    return a - b\n\nprint(1)"
        assert [text for _, text in driver.said] == ["def f():\n    ", "return a - b", "\n\nprint(1)"]


@pytest.mark.parametrize("place", [1, 2])
async def test_a_text_goes_on_from_any_token_with_an_alternative_or_the_same_one(place: int) -> None:
    engine = ScriptedEngine(" one two three")
    async with running(engine, size=(120, 40)) as driver:
        await driver.type("text")
        await continued(driver, engine)
        assert driver.pane.newest
        tokens = driver.pane.newest.tokens[0]
        other = tokens[1].alternatives[place - 1].text
        assert (other == " two") == (place == 2)
        await driver.press("ctrl+t")
        await driver.until(lambda: isinstance(driver.app.screen, HeatScreen))
        engine.turns = [" end"]
        await driver.press("right", str(place))
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        assert engine.asked[1] == f"text one{other}"
        assert driver.text == f"text one{other} end"
        assert driver.written_by_model() == f" one{other} end"
        assert len(driver.pane.dialogue.branch()[-1].versions) == 2  # type: ignore[union-attr]
        await driver.press("ctrl+up")
        await opened(driver, "text one two three")


async def test_what_a_model_wrote_to_drive_the_terminal_stays_the_models(tmp_path: Path) -> None:
    engine, path = ScriptedEngine(" \x1b[2J\u202eone\r\ntwo", turns=[]), tmp_path / "history.db"
    async with running(engine, history=path) as driver:
        await driver.type("text")
        await continued(driver, engine)
        text = driver.text
        assert "\x1b" not in text
        await driver.type("!")
    async with running(engine, history=path) as driver:
        await opened(driver, text + "!")
        assert [role for role, _ in driver.said] == ["user", "assistant", "user"]
        await continued(driver, engine)
        assert engine.asked[-1] == "text \x1b[2J\u202eone\r\ntwo!"
