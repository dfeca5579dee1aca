"""A long answer while it grows: laid out and painted once for each change, without what lies far above the window."""

from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static
from textual.widgets._markdown import MarkdownBlock

from chatapp.tui.chat.chat_page import ChatPage
from chatapp.tui.widgets.formatted import Formatted
from chatapp.tui.widgets.textual_fixes import LaidOutOnce
from support.screen_driver import running
from support.scripted_engine import ANSWER, ScriptedEngine

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n"
PIECES = (ANSWER, TABLE, "> quoted\n\n1. one\n2. two\n   - deeper\n", "## A heading\n\nprose " + "word " * 60 + "\n")


class Growing(Screen[None]):
    """Markdown that grows, whose end is followed."""

    layouts = paints = 0

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            yield Formatted("")
        scroll.anchor()

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        self.layouts += 1
        super()._refresh_layout(size, scroll)

    def _compositor_refresh(self) -> None:
        self.paints += 1
        super()._compositor_refresh()


class GrowingOnce(LaidOutOnce, Growing):
    """The same, laid out once."""


def regions(markdown: Formatted) -> list[Region]:
    """Where each widget is."""
    return [widget.region for widget in markdown.walk_children(Widget) if widget.region]


async def grown(pilot: Pilot[None], times: int) -> tuple[Formatted, list[Region]]:
    """The Markdown after so many changes, and where all of it was when nothing was left out."""
    markdown = pilot.app.screen.query_one(Formatted)
    for time in range(times):
        await markdown.append(PIECES[time % len(PIECES)] + "\n")
        await pilot.pause()
    return markdown, regions(markdown)


async def layouts(screen: Growing) -> tuple[int, int, list[Region]]:
    """How often a screen was laid out and painted for eight changes, and where all of it is."""
    async with App[None]().run_test(size=(80, 20)) as pilot:
        await pilot.app.push_screen(screen)
        await grown(pilot, 8)  # by then there is a scroll bar
        screen.layouts = screen.paints = 0
        _, found = await grown(pilot, 8)
        return screen.layouts, screen.paints, found


async def test_each_change_is_laid_out_and_painted_once_and_as_textual_does() -> None:
    usual, painted, expected = await layouts(Growing())
    once, painted_once, found = await layouts(GrowingOnce())
    assert found == expected
    assert once < 11 < 14 < usual
    assert painted_once < 11 < 14 < painted


async def test_what_is_asked_for_at_the_end_of_a_layout_is_laid_out() -> None:
    async with App[None]().run_test(size=(80, 20)) as pilot:
        await pilot.app.push_screen(GrowingOnce())
        screen, popup = pilot.app.screen, Static("beside it")
        await screen.mount(popup)
        await pilot.pause()
        rows = [3]

        def stretch(laid_out: Screen[object]) -> None:
            if rows:
                popup.styles.height = rows.pop()

        screen.screen_layout_refresh_signal.subscribe(popup, stretch, immediate=True)
        await grown(pilot, 1)
        await pilot.pause()
        assert not rows and popup.region.height == 3


@pytest.mark.parametrize("times", [9, 21])
async def test_what_is_far_above_is_left_out_and_all_else_stays_at_its_place(times: int) -> None:
    async with App[None]().run_test(size=(80, 20)) as pilot:
        await pilot.app.push_screen(GrowingOnce())
        markdown, before = await grown(pilot, times)
        height = markdown.size.height
        markdown.leave_out(20)
        await pilot.pause()
        blocks = list(markdown.query_children(MarkdownBlock))
        left = [block for block in blocks if not block.display]
        assert len(left) > len(blocks) // 3
        assert markdown.size.height == height
        seen = [region for region in before if region.bottom > -20]
        assert regions(markdown)[-len(seen) :] == seen
        markdown.lay_out_all()
        await pilot.pause()
        assert regions(markdown) == before


async def test_what_is_near_is_laid_out() -> None:
    async with App[None]().run_test(size=(80, 20)) as pilot:
        await pilot.app.push_screen(GrowingOnce())
        markdown, _ = await grown(pilot, 2)
        markdown.leave_out(20)
        assert all(block.display for block in markdown.query_children(MarkdownBlock))


async def test_a_reader_who_scrolls_up_finds_all_of_it_and_so_does_the_end(tmp_path: Path) -> None:
    text = "".join(f"{ANSWER}\nNumber {number}.\n\n" for number in range(14))
    engine = ScriptedEngine(text, can_chat=True, pause_after=250)
    engine.context_length = 100_000
    async with running(engine, history=tmp_path / "history.db") as driver:
        await driver.type("hello\n")
        await driver.wrote(250)
        engine.pause_after = 500  # what is left out is left out when more comes
        engine.go.set()
        engine.go.clear()
        await driver.wrote(500)
        page = driver.pane.chat_page
        assert isinstance(page, ChatPage)
        body = page.query_one(Formatted)
        await driver.until(lambda: body.above.is_attached and body.above.display, "something to be left out")
        await driver.until(lambda: not any(line.startswith("Number 0.") for line in driver.picture.splitlines()))
        page.scroll_home(animate=False)
        await driver.until(lambda: "Number 0." in driver.picture, "the beginning")
        assert not body.above.display
        engine.go.set()
        await driver.answered()
        await driver.until(lambda: all(block.display for block in page.query(MarkdownBlock)), "all of it")
        assert driver.said[-1][1] == text.rstrip() or driver.said[-1][1] == text


async def test_an_answer_that_ends_before_anything_of_it_can_be_shown_is_shown() -> None:
    async with running(ScriptedEngine("42", can_chat=True)) as driver:  # "42." might yet begin a list
        for times in (1, 2):
            await driver.type(f"6 times 7, question {times}?\n")
            await driver.answered()
            await driver.until(lambda: "  42" in driver.picture)
            assert f"question {times}?" in driver.picture
        assert driver.pane.is_attached


async def test_a_long_line_of_code_is_seen_to_its_end_as_in_an_answer_that_is_long_past() -> None:
    async with running(ScriptedEngine(f"```python\nx = '{'a' * 100}'  # the end\n```\n", can_chat=True)) as driver:
        await driver.type("go\n")
        await driver.answered()
        await driver.until(lambda: "# the end" in driver.picture)
