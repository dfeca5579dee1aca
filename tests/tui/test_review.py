"""What is told, and where and when: footers, toasts, meters and cursors that say what is so."""

from pathlib import Path

import pytest
from textual.app import ComposeResult
from textual.widgets._toast import Toast

from chatapp.conversation import WhenFull
from chatapp.generation import Token
from chatapp.models.catalogue import ListedModel
from chatapp.tui import app
from chatapp.tui.answers.column import Column
from chatapp.tui.chat.message import Said
from chatapp.tui.chat.reply import NEXT, ending
from chatapp.tui.insight.heat import HeatScreen
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.models.detail import Detail
from support.screen_driver import Driver, beginning, running, started
from support.scripted_engine import ScriptedEngine
from support.themed_app import ThemedApp


def footer(driver: Driver) -> str:
    """The keys that are named on the screen."""
    return str(driver.app.screen.query_one(Keys).render())


async def test_the_footer_says_what_escape_does_and_it_leaves_the_messages_before_it_stops() -> None:
    engine = ScriptedEngine("one two three four", can_chat=True, pause_after=2)
    async with running(engine) as driver:
        assert "esc" not in footer(driver)
        await driver.type("a\n")
        await driver.until(lambda: driver.pane.reply and driver.pane.query(Said))
        await driver.until(lambda: "esc Stop" in footer(driver) and "Back" not in footer(driver))
        driver.pane.query(Said).first().focus()
        await driver.until(lambda: "esc Back" in footer(driver) and "Stop" not in footer(driver))
        await driver.press("escape")
        await driver.until(lambda: driver.pane.prompt.has_focus)
        assert driver.pane.reply and not driver.pane.reply.thread.stopping.is_set()
        await driver.press("escape")
        await driver.until(lambda: not driver.writing)
        await driver.press("ctrl+b")
        await driver.until(lambda: "esc Back" in footer(driver))


async def test_token_heat_opens_where_its_cursor_is_and_names_each_key_once() -> None:
    engine = ScriptedEngine("word " * 900, can_chat=True)
    async with running(engine, size=(100, 30)) as driver:
        await driver.type("a\n")
        await driver.answered()
        await driver.press("ctrl+t")
        await driver.until(lambda: isinstance(driver.app.screen, HeatScreen) and driver.app.screen.heat.flow.rows)
        await driver.pilot.pause()
        heat = driver.app.screen.heat  # type: ignore[attr-defined]
        assert (heat.cursor, heat.scroll_y) == (0, 0)
        await driver.press("enter")
        await driver.until(lambda: "Continue with it" in footer(driver))
        assert footer(driver).count("↵") == 1


@pytest.mark.parametrize("when_full", ["stop", "slide", "summarise"])
def test_a_full_context_is_told_with_what_comes_of_it(when_full: WhenFull) -> None:
    message = ending("length", error=None, full=True, when_full=when_full).message
    assert message.endswith(NEXT[when_full])
    assert ("choose slide" in message) == (when_full == "stop")


async def test_what_a_conversation_has_to_tell_waits_until_it_is_looked_at(tmp_path: Path) -> None:
    engine = ScriptedEngine("word " * 900, can_chat=True, pause_after=5)
    engine.context_length = 60
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("a\n")
        await driver.until(lambda: driver.pane.reply)
        full = driver.pane
        await driver.press("ctrl+n")
        engine.go.set()
        await driver.until(lambda: full.status.state == "■ context full")
        assert full.heading.used == full.heading.total == 60
        assert not driver.toasts
        await driver.press("f1")
        await driver.screen.show(full)
        assert not driver.toasts
        await driver.press("escape")
        await driver.until(lambda: any("context is full" in toast for toast in driver.toasts))
        await driver.type("b")
        await driver.until(lambda: full.heading.used > 60)
        await driver.until(lambda: "60 / 60" in driver.picture)


async def test_the_same_toast_stands_there_once_beside_what_one_types_and_not_for_long() -> None:
    async with running(ScriptedEngine(can_chat=True)) as driver:
        await driver.press("ctrl+s")
        await driver.until(lambda: driver.screen.drawer)
        for _ in range(3):
            driver.app.notify("It cannot be done.", severity="error", timeout=10)
        await driver.until(lambda: driver.toasts)
        await driver.pilot.pause(0.2)
        [toast] = driver.app.screen.query(Toast)
        assert driver.toasts == ["It cannot be done."]
        assert next(iter(driver.app._notifications)).timeout < 4
        assert driver.screen.drawer
        for other in (driver.pane.prompt, driver.pane.status, driver.screen.drawer):
            assert not toast.region.overlaps(other.region)


async def test_what_is_told_takes_the_place_of_what_was_told_before_and_an_error_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(ScriptedEngine(can_chat=True)) as driver:
        driver.app.notify("Broken.", severity="error")
        driver.app.notify("One.")
        driver.app.notify("Two.")
        await driver.until(lambda: driver.toasts == ["Broken.", "One.", "Two."])
        monkeypatch.setattr(app, "TOGETHER", -1.0)
        driver.app.notify("Three.")
        driver.app.notify("Broken, too.", severity="error")
        await driver.until(lambda: driver.toasts == ["Broken.", "Three.", "Broken, too."])


async def test_what_is_wrong_with_a_theme_is_told_once_and_again_when_it_was_changed(tmp_path: Path) -> None:
    broken = tmp_path / "themes" / "mine.toml"
    broken.parent.mkdir()
    for content, times in (("dark = 1", 1), ("dark = 1", 0), ("dark = 2", 1)):
        if not broken.exists() or broken.read_text() != content:
            broken.write_text(content)
        async with started(beginning(ScriptedEngine(), home=tmp_path)) as driver:
            await driver.until(lambda: driver.screen.history_tried)
            assert len([toast for toast in driver.toasts if "mine" in toast]) == times


async def test_the_page_about_a_model_is_empty_until_its_width_is_known() -> None:
    detail = Detail()

    class Page(ThemedApp):
        def compose(self) -> ComposeResult:
            yield detail
            detail.show(ListedModel("a-model", "absent", "base", "a-model"), None, None)
            before.append(str(detail.page.render()))

    before = list[str]()
    async with Page().run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        assert before == [""]
        assert "a-model" in str(detail.page.render())


async def test_a_narrow_answer_with_a_name_has_its_mean_log_probability_below() -> None:
    column = Column(0, "a-model-with-a-long-name on onnx")

    class Page(ThemedApp):
        def compose(self) -> ComposeResult:
            yield column

    async with Page().run_test(size=(34, 6)) as pilot:
        column.best = True
        column.grow("text", [Token(1, "text", -0.25, (), 0.1)])
        column.finish("stop")
        await pilot.pause()
        rows = ["".join(segment.text for segment in column.render_line(y)) for y in range(column.size.height)]
        assert "★" in rows[0] and "a-model" in rows[0] and "0.25" not in rows[0]
        assert "−0.25 log-prob" in rows[-1]
