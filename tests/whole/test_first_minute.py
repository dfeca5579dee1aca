"""What a newcomer sees first: an answer that makes sense, and what to do next."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from textual.color import Color

from chatapp.cli import main
from chatapp.generation.decoding.stop import StopStrings
from chatapp.generation.engine import Engine
from chatapp.generation.options import without_free_text
from chatapp.models.suggestion import Offer
from chatapp.placement.opening import open_engine
from chatapp.placement.selection import PlacementOptions
from chatapp.tui.chat.completion_page import EXAMPLE, GAP_EXAMPLE
from chatapp.tui.widgets.python_syntax import LONGEST, looks_like_python, parse
from model_store import Store
from support.checkpoints import ROOT
from support.screen_driver import Driver, running
from support.scripted_engine import ScriptedEngine

RIGHT = "return len(self.items)"


@pytest.fixture(scope="module")
def builtin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    yield open_engine(Store(tmp_path_factory.mktemp("models")), "builtin", PlacementOptions("onnx"))


def continued(engine: Engine, text: str, seed: int) -> str:
    return "".join(delta.text for delta in engine.complete(text, replace(engine.defaults, seed=seed)))


@pytest.mark.parametrize("seed", range(4))
def test_the_example_is_continued_rightly_whatever_the_seed(builtin: Engine, seed: int) -> None:
    text = EXAMPLE + continued(builtin, EXAMPLE, seed)
    assert text.endswith(RIGHT)
    ast.parse(text)


def test_the_first_command_of_the_readme_prints_what_parses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHATAPP_BACKEND", "onnx")
    commands = re.findall(r'chatapp run builtin "([^"]+)"', (ROOT / "README.md").read_text("utf-8"))
    assert main.main(["run", "builtin", commands[0]]) == 0
    printed = capsys.readouterr().out
    assert RIGHT in printed and len(printed) < 200
    ast.parse(commands[0] + printed)


@pytest.mark.parametrize("seed", range(4))
def test_the_gap_is_filled_and_nothing_that_stands_behind_it_repeated(builtin: Engine, seed: int) -> None:
    before, after = GAP_EXAMPLE
    options = replace(without_free_text(builtin.defaults), seed=seed)
    middle = "".join(delta.text for delta in builtin.infill(before, after, options))
    assert middle == "self.name = name"
    ast.parse(before + middle + after)


@pytest.mark.parametrize("end", ["\n", "\n ", "\n    ", "\n\n"])
def test_white_space_at_the_end_of_a_text_is_gone_on_with(builtin: Engine, end: str) -> None:
    begun = 'import csv\n\n\ndef read_rows(path):\n    """Read the rows of a CSV file."""'
    options = replace(builtin.defaults, temperature=0.0, max_tokens=30)
    more = "".join(delta.text for delta in builtin.complete(begun + end, options))
    assert re.match(r"\n+    \w", end + more), "the function's body"


def test_the_built_in_model_goes_on_where_it_stopped(builtin: Engine) -> None:
    first = EXAMPLE + continued(builtin, EXAMPLE, 0)
    more = continued(builtin, first, 0)
    assert more.strip()


def test_empty_lines_stop_no_text_that_goes_on_before_it_has_begun() -> None:
    stops = StopStrings(["\n\n", "END"], going_on=True)
    assert [stops.add(piece) for piece in ("\n\n", "\n    x", " = 1\n", "\n    y")] == ["\n\n", "\n    x", " = 1", ""]
    assert stops.found
    strict = StopStrings(["\n\n"])
    assert (strict.add("\n\n    x"), strict.found) == ("", True)


# On the screen


async def test_one_key_runs_the_example_and_then_the_token_view_is_pointed_at() -> None:
    engine = ScriptedEngine("\n        pass")
    async with running(engine) as driver:
        assert "A small model: Python and JavaScript." in driver.picture
        await driver.press("ctrl+j")
        await driver.answered()
        assert engine.asked == [EXAMPLE]
        assert driver.text == EXAMPLE + "\n        pass"
        await driver.until(lambda: "ctrl+t: how sure the model was of each token" in driver.picture)
        await driver.press("ctrl+j")
        await driver.until(lambda: len(engine.asked) == 2 and not driver.writing)
        await driver.until(lambda: "ctrl+t: how sure" not in driver.picture)


async def test_one_key_shows_how_a_gap_is_filled() -> None:
    engine = ScriptedEngine("self.items.append(item)")
    before, after = GAP_EXAMPLE
    async with running(engine) as driver:
        await driver.press("ctrl+f")
        await driver.answered()
        assert engine.asked == [f"{before}<gap>{after}"]
        assert driver.text == before + "self.items.append(item)" + after


async def test_enter_in_an_empty_text_tells_what_to_do() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.press("enter")
        await driver.until(lambda: "ctrl+j continues the text; for chat, ctrl+o chooses a model" in driver.picture)
        assert driver.text == ""
        driver.screen.offer_line.offer = Offer("chat", ("small",), "Want to chat?", "downloads small (1 MB)")
        await driver.type("hello, can you help me?\n")
        await driver.until(lambda: "for chat, F8 downloads a model" in driver.picture)
        assert driver.text == "hello, can you help me?\n"


@pytest.mark.parametrize("key", ["enter", "ctrl+j"])
async def test_a_command_in_a_text_is_done_and_is_no_part_of_it(key: str) -> None:
    engine = ScriptedEngine()
    async with running(engine) as driver:
        await driver.type("/set parameter temperature 0.5")
        await driver.press(key)
        await driver.until(lambda: driver.toasts == ["temperature is 0.5 from the next answer on."])
        assert (driver.text, engine.asked) == ("", [])
        await driver.type("/foo")
        await driver.press(key)
        await driver.until(lambda: "/foo" in driver.toasts[-1])
        assert driver.text == "/foo"


async def test_a_path_or_a_second_line_is_no_command() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.type("/usr/bin\n/help\n")
        assert (driver.text, driver.toasts) == ("/usr/bin\n/help\n", [])


async def test_figures_appear_with_the_first_token() -> None:
    async with running(ScriptedEngine(pause_after=3)) as driver:
        assert driver.pane.status.size.height == 1
        assert "MB" not in driver.picture and "onnx" not in driver.picture
        await driver.press("ctrl+j")
        await driver.wrote(3)
        await driver.until(lambda: driver.pane.status.size.height == 2)
        await driver.until(lambda: "118 MB" in driver.picture)


# Colours


def test_the_parts_of_a_line_have_their_kinds() -> None:
    def kinds(line: str, fence: str = "") -> list[tuple[str, str]]:
        return [(line[start:end], kind) for start, end, kind in parse(line, fence)[0]]

    assert kinds("def f(x=1.5, y='a#b'):  # why") == [
        ("def", "keyword"), ("1.5", "number"), ("'a#b'", "string"), ("# why", "comment"),
    ]  # fmt: skip
    assert kinds("@property") == [("@property", "decorator")]
    assert kinds("defined = information") == []
    assert parse('x = """begun', "")[1] == '"""'
    assert kinds('in here""" in y', '"""') == [('in here"""', "string"), ("in", "keyword")]
    assert kinds("def " + "x" * LONGEST) == []


def test_prose_does_not_look_like_python() -> None:
    assert looks_like_python(["", "class Account:"]) and looks_like_python(["from os import path"])
    assert not looks_like_python(
        ["hello, can you help me?", "from here on, and for all of us:", "in class we import it"]
    )


def foreground(driver: Driver, row: int, column: int) -> Color | None:
    """The colour of a character of the text."""
    place = 0
    for segment in driver.pane.completion_page.render_line(row):
        place += len(segment.text)
        if place > column:
            return Color.from_rich_color(segment.style.color) if segment.style and segment.style.color else None
    raise AssertionError("the line is shorter")


@pytest.mark.parametrize("theme", ["midnight", "paper"])
async def test_code_has_the_colours_of_the_theme_also_inside_long_quotes(theme: str) -> None:
    async with running(ScriptedEngine("1\n    return None"), theme=theme) as driver:
        await driver.type('def f():\n"""one\ndef two"""\nx = ')
        await driver.press("ctrl+j")
        await driver.answered()
        await driver.pilot.pause()
        accent, success = (Color.parse(driver.app.theme_variables[name]) for name in ("accent", "success"))
        notebook = driver.pane.completion_page
        row = next(y for y in range(5) if "def f" in notebook.render_line(y).text)
        column = notebook.render_line(row).text.index("def f")
        assert foreground(driver, row, column) == accent
        assert foreground(driver, row + 2, column + 1) == success  # a keyword, but inside the quotes
        assert foreground(driver, row + 4, column + 5) == accent  # the model's
        notebook.replace("", (1, 0), (1, 3))
        await driver.pilot.pause()
        assert foreground(driver, row + 2, column + 1) == accent


async def test_prose_has_no_colours_of_code() -> None:
    async with running(ScriptedEngine(" and so on")) as driver:
        await driver.type("once and for all")
        await driver.press("ctrl+j")
        await driver.answered()
        notebook = driver.pane.completion_page
        assert not notebook.coloured() and notebook.fences == [""]
