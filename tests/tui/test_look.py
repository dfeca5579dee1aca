"""Modes, themes, commands, the figures, and frames over a slow line."""

from queue import Queue
from types import SimpleNamespace

import pytest
from rich.style import Style as RichStyle
from textual.css.stylesheet import Stylesheet
from textual.geometry import Offset
from textual.selection import SELECT_ALL, Selection
from textual.style import Style

import themes
from chatapp.generation import Options
from chatapp.text.units import round_up
from chatapp.tui.chat.message import Answer, Question
from chatapp.tui.chat.status import Figures, strip
from chatapp.tui.help.theme_picker import ThemePicker
from chatapp.tui.widgets.prose import Settled
from support.screen_driver import EXAMPLE, Driver, running
from support.scripted_engine import ANSWER, FIBONACCI, ScriptedEngine

# Modes, themes, commands


async def test_modes_and_themes_are_commands() -> None:
    async with running(ScriptedEngine(can_chat=True)) as driver:
        titles = {command.title: command.act for command in driver.app.commands()}
        assert {"Mode: chat", "Mode: completion", "Theme: paper", "Theme: contrast", "Quit"} <= titles.keys()
        assert set(driver.app.available_themes) == {path.stem for path in themes.SHIPPED.glob("*.toml")}
        titles["Theme: paper"]()
        assert driver.app.theme == "paper"
        await driver.type("moves along")
        await driver.screen.action_kind("completion")
        await driver.pilot.pause()
        assert (driver.text, driver.pane.prompt.text) == ("moves along", "")
        await driver.press("ctrl+j")
        await driver.answered()
        assert driver.written_by_model()


async def test_a_model_without_a_template_does_not_chat() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.screen.action_kind("chat")
        assert driver.pane.kind == "completion"
        await driver.until(lambda: driver.toasts)
        assert driver.toasts == ["builtin has no chat template: it continues text."]


async def test_the_mode_stays_while_the_model_writes() -> None:
    async with running(ScriptedEngine(ANSWER, can_chat=True, pause_after=5)) as driver:
        await driver.type("why?\n")
        await driver.wrote(5)
        await driver.screen.action_kind("completion")
        await driver.until(lambda: driver.toasts == ["The model is writing: esc stops it."])
        assert driver.pane.kind == "chat"


async def test_a_click_on_a_key_presses_it() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.press("tab")
        await driver.pilot.click("Keys", offset=(5, 0))
        await driver.answered()
        assert driver.written_by_model()


async def test_resizing_while_the_model_writes_keeps_the_end_in_view() -> None:
    engine = ScriptedEngine(FIBONACCI * 3, pause_after=100)
    async with running(engine, size=(120, 40)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(100)
        await driver.pilot.resize_terminal(60, 12)
        engine.go.set()
        await driver.answered()
        await driver.pilot.pause()
        notebook = driver.pane.completion_page
        await driver.until(lambda: notebook.size.height == 5)
        await driver.until(lambda: notebook.scroll_y == notebook.max_scroll_y > 0)


async def test_the_view_stays_where_its_reader_scrolled_to() -> None:
    engine = ScriptedEngine(FIBONACCI * 3, pause_after=100)
    async with running(engine, size=(80, 14)) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.wrote(100)
        notebook = driver.pane.completion_page
        await driver.until(lambda: notebook.scroll_y == notebook.max_scroll_y > 0)  # the figures have found their place
        await driver.pilot.pause()
        notebook.scroll_to(y=2, animate=False, force=True)
        await driver.pilot.pause()
        engine.go.set()
        await driver.answered()
        await driver.pilot.pause()
        assert notebook.scroll_y == 2


async def test_without_colours_the_users_words_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(ScriptedEngine()) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        notebook = driver.pane.completion_page
        assert driver.app.no_color
        assert notebook.styles.text_style.bold
        assert not notebook.get_component_rich_style("authored--model").bold


async def test_no_frame_has_the_colours_of_two_themes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(ScriptedEngine()) as driver:
        parsed_again: list[Stylesheet] = []
        monkeypatch.setattr(Stylesheet, "reparse", parsed_again.append)
        await driver.press("f2")
        await driver.until(lambda: isinstance(driver.app.screen, ThemePicker))
        box, painted = driver.app.screen.query_one(".window"), set[tuple[str, str]]()

        def look() -> None:
            painted.add((box.styles.background.hex.lower(), driver.screen.styles.background.hex.lower()))

        monkeypatch.setattr(driver.app, "post_display_hook", look)
        await driver.press("down")
        shades = {name: (one.surface.lower(), one.background.lower()) for name, one in driver.app.palettes.items()}
        await driver.until(lambda: shades["mist"] in painted)
        assert painted <= set(shades.values()) and not parsed_again


async def test_a_theme_changes_what_is_already_written() -> None:
    async with running(ScriptedEngine()) as driver:
        await driver.press("tab", "ctrl+j")
        await driver.answered()
        themes = driver.app.available_themes
        for old, new in (("midnight", "paper"), ("paper", "contrast")):
            assert themes[old].variables["model"] in driver.app.export_screenshot()
            driver.app.theme = new
            await driver.pilot.pause()
            assert themes[new].variables["model"] in driver.app.export_screenshot()
            assert themes[old].variables["model"] not in driver.app.export_screenshot()


async def test_a_theme_that_is_not_there_is_said() -> None:
    async with running(ScriptedEngine(), theme="neon") as driver:
        assert driver.app.theme == "midnight"
        assert [toast.split(";")[0] for toast in driver.toasts] == ["There is no theme 'neon'"]


# The context meter and the figures


async def test_the_context_meter_counts_what_is_typed_and_written() -> None:
    async with running(ScriptedEngine(pause_after=30)) as driver:
        await driver.press("tab")
        await driver.until(lambda: driver.pane.heading.used == 19)
        await driver.press("ctrl+j")
        await driver.wrote(30)
        assert driver.pane.heading.used == 49
        assert driver.pane.heading.total == 1024


@pytest.mark.parametrize("seconds", [0.00031, 0.0042, 0.0125, 0.031, 0.4, 3.0])
def test_the_scale_of_the_strip_is_a_round_number_above(seconds: float) -> None:
    assert seconds <= round_up(seconds) <= 1.7 * seconds


def test_the_strip_is_full_at_the_top_of_its_scale() -> None:
    assert strip([0.001, 0.02, 0.04], 0.04) == "▁▅█"


def test_figures_added_up_agree_with_the_engines_summary() -> None:
    deltas = list(ScriptedEngine().complete(EXAMPLE, Options()))
    live = Figures(prompt_tokens=5)
    live.add(deltas[:-1])
    done = Figures()
    done.add(deltas)
    assert live.usage is None and done.usage is not None
    assert done.tokens == live.tokens + 1 == 103
    assert live.time_to_first_token == pytest.approx(done.time_to_first_token)
    assert live.tokens_per_second == pytest.approx(done.tokens_per_second, rel=0.02)
    assert live.p95 == pytest.approx(done.p95, rel=0.05)


@pytest.mark.parametrize("theme", ["paper", "midnight"])
async def test_code_and_headings_have_the_colours_of_the_theme_also_in_answers_that_are_long_past(theme: str) -> None:
    engine = ScriptedEngine("# Say\n\n## Now\n\n`so`:\n\n```python\nreturn x\n```\n", can_chat=True)
    async with running(engine, theme=theme) as driver:
        await driver.type("a\n")
        await driver.answered()
        await driver.until(lambda: "return x" in driver.picture)
        words = ("so", "return", "Say", "Now")
        new = looks(driver, *words)
        await driver.pane.query_one(Answer).settle()
        await driver.until(lambda: "return x" in driver.picture)
        surface = driver.app.theme_variables["surface"].lower()
        past = looks(driver, *words)
        assert [str(look.bgcolor.name) for look in past[:2] if look.bgcolor] == [surface] * 2
        assert [(look.color, look.bold) for look in past] == [(look.color, look.bold) for look in new]


def looks(driver: Driver, *texts: str) -> list[RichStyle]:
    """How texts look on the screen."""
    pieces = [piece for strip in driver.app.screen._compositor.render_strips() for piece in strip]
    return [next(piece.style for piece in pieces if piece.text.strip() == text and piece.style) for text in texts]


async def test_a_drag_selects_of_an_answer_that_is_long_past_what_it_would_of_a_new_one() -> None:
    engine = ScriptedEngine("A `b` 漢字.\n\n```python\ndef f():\n    return 漢字\n\nf()\n```\n", can_chat=True)
    async with running(engine) as driver:
        await driver.type("a\n")
        await driver.answered()
        await driver.pane.query_one(Answer).settle()
        await driver.until(lambda: "return" in driver.picture)
        await driver.pilot.mouse_down(offset=(9, 4))
        await driver.pilot.hover(offset=(9, 9))
        await driver.pilot.hover(offset=(20, 10))
        await driver.pilot.mouse_up(offset=(20, 10))
        assert driver.screen.get_selected_text() == "漢字.\n\n\ndef f():\n    return 漢字\n\nf()"
        selected = Style.from_styles(driver.screen.get_component_styles("screen--selection")).rich_style.bgcolor
        pieces = [segment for strip in driver.screen._compositor.render_strips() for segment in strip]
        shown = [piece.text.strip() for piece in pieces if piece.style and piece.style.bgcolor == selected]
        assert "".join(shown) == "漢字.deff():return漢字f()"
        await driver.press("ctrl+c")
        await driver.until(lambda: driver.toasts)
        assert not driver.screen.selections


async def test_what_has_lost_lines_since_it_was_selected_is_copied_as_far_as_it_is_there() -> None:
    async with running(ScriptedEngine("<think>one\ntwo</think>Yes.", can_chat=True)) as driver:
        await driver.type("a\n")
        await driver.answered()
        answer, part = driver.pane.query_one(Answer), Selection(Offset(0, 1), Offset(3, 1))
        answer.action_open()
        driver.screen.selections = {driver.pane.query_one(Question).body: SELECT_ALL, answer.thought: part}
        assert driver.screen.get_selected_text() == "a\none"
        answer.action_open()
        assert driver.screen.get_selected_text() == "a"


@pytest.mark.parametrize("theme", ["terminal", "terminal-light"])
async def test_names_in_code_have_no_ink_that_may_be_the_colour_of_the_paper(theme: str) -> None:
    engine = ScriptedEngine("```python\nanything = 1  # so far\n```\n", can_chat=True)
    async with running(engine, theme=theme) as driver:
        await driver.type("a\n")
        await driver.answered()
        await driver.until(lambda: "anything" in driver.picture)
        pieces = [segment for strip in driver.app.screen._compositor.render_strips() for segment in strip]
        inks = {piece.text.strip(): piece.style.color for piece in pieces if piece.style and piece.style.color}
        assert not inks["anything"].is_default
        assert not inks["="].is_default


WRAPPED = f"""\
## {"heading " * 12}

7 words, soft
break, *that* `go` {"on " * 30}

1. {"first " * 20}
   - {"nested " * 20}
2. second

- th
- at

> {"quoted " * 20}

```
{"code " * 30}
    more
```
{"z" * 100} 漢字{"漢" * 50}
"""


async def test_what_is_copied_of_an_answer_that_is_long_past_has_the_lines_of_its_text() -> None:
    async with running(ScriptedEngine(WRAPPED, can_chat=True), size=(60, 50)) as driver:
        await driver.type("a\n")
        await driver.answered()
        await driver.pane.query_one(Answer).settle()
        await driver.until(lambda: "more" in driver.picture)
        driver.screen.selections = {driver.pane.query_one(Settled): SELECT_ALL}
        copied = driver.screen.get_selected_text()
        words = [f"{word} " * 20 for word in ("first", "nested", "quoted")]
        lines = ["heading " * 12, f"7 words, soft break, that go {'on ' * 30}"]
        lines += [f"1 {words[0]}", f"• {words[1]}", "2 second", "• th", "• at", f"▌ {words[2]}", "code " * 30, "more"]
        lines += [f"{'z' * 100} 漢字{'漢' * 50}"]
        assert copied and [line.strip() for line in copied.splitlines() if line.strip()] == [
            line.strip() for line in lines
        ]


async def test_a_terminal_that_is_behind_is_painted_when_it_has_the_frame_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(ScriptedEngine(can_chat=True)) as driver:
        waiting: Queue[str] = Queue()
        waiting.put("the frame before")
        monkeypatch.setattr(driver.app._driver, "_writer_thread", SimpleNamespace(_queue=waiting), raising=False)
        painted: list[str] = []
        monkeypatch.setattr(driver.app, "post_display_hook", lambda: painted.append(driver.pane.prompt.text))
        await driver.type("newest")
        await driver.until(lambda: driver.pane.prompt.text == "newest")
        await driver.pilot.pause(0.1)
        assert not painted
        waiting.get()
        await driver.until(lambda: painted)
        assert painted[0] == "newest"
