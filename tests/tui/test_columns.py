"""Several answers side by side: their columns, what is told of each, and what the keys do."""

import asyncio
import re

import pytest
from rich.cells import cell_len
from textual import events
from textual.geometry import Size

from chatapp.generation import Options, Token
from chatapp.tui.answers.columns import Columns, rows_of, tiles
from support.answers_page import PROSE, paged, shown
from support.awkward_texts import LONG
from support.scripted_engine import ScriptedEngine


def token(text: str, logprob: float | None = -0.5, seconds: float = 0.02) -> Token:
    return Token(1, text, logprob, (), seconds)


@pytest.mark.parametrize(
    ("count", "size", "rows"),
    [
        (2, (80, 21), 1),
        (3, (80, 21), 1),
        (4, (80, 21), 2),
        (5, (120, 37), 2),
        (9, (120, 37), 3),
        (9, (200, 57), 2),
        (9, (80, 21), 0),
        (3, (40, 21), 0),
        (2, (80, 5), 1),
    ],
)
def test_columns_take_as_few_rows_as_can_be_read(count: int, size: tuple[int, int], rows: int) -> None:
    assert rows_of(count, Size(*size)) == rows


@pytest.mark.parametrize("count", range(1, 10))
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_tiles_leave_one_cell_between_them_and_nothing_else(count: int, rows: int) -> None:
    regions = tiles(count, min(rows, count), Size(121, 37))
    assert len(regions) == count
    covered = {(x, y) for region in regions for y in range(*region.line_span) for x in range(*region.column_span)}
    assert len(covered) == sum(region.area for region in regions)
    gaps = {(x, y) for x in range(121) for y in range(1, 38)} - covered
    assert len(gaps) == sum(region.height for region in regions if region.right < 121)


def write(columns: Columns, index: int, text: str, logprob: float | None = -0.5) -> None:
    for word in re.findall(r"\S*\s?", text):
        columns.grow(index, word, [token(word, logprob)])


async def test_each_answer_has_its_text_its_figures_and_its_state() -> None:
    async with paged(3) as (app, pilot):
        columns = app.columns
        columns.grow(0, "Hello", [token("Hello", -0.25, 0.5)])
        columns.grow(0, " you", [token(" you", -0.75, 0.025)])
        columns.grow(1, "Good day", [token("Good day", -1.0)])
        columns.finish(1, "length")
        await pilot.pause()
        first, second, third = (shown(column) for column in columns.columns)
        assert re.fullmatch(r" 1 ★ −0.50 +● writing", first[0])
        assert (first[1], first[-1]) == (" Hello you", " 2 tokens  40.0 tok/s")
        assert re.fullmatch(r" 2 −1.00 +■ length", second[0])
        assert (second[1], second[-1]) == (" Good day", " 1 token")
        assert re.fullmatch(r" 3 +○ waiting", third[0])
        assert third[-1] == ""


async def test_a_batch_of_three_streams_into_its_columns() -> None:
    engine = ScriptedEngine(texts=["one of three", "a second one, longer", "x"])
    async with paged(3) as (app, pilot):
        for delta in engine.complete("count", Options(n=3, logprobs=5, max_tokens=4)):
            app.columns.grow(delta.index, delta.text, delta.tokens)
            if delta.finish_reason:
                app.columns.finish(delta.index, delta.finish_reason)
        await pilot.pause()
        columns = app.columns.columns
        assert ["".join(column.wrapped.parts) for column in columns] == ["one of three", "a second one,", "x"]
        assert [column.state for column in columns] == ["● done", "■ length", "● done"]
        assert not app.columns.writing
        means = [column.reply.mean_logprob or 0.0 for column in columns]
        assert [column.best for column in columns] == [mean == max(means) for mean in means]
        assert app.columns.best == 2


async def test_the_star_moves_to_the_answer_with_the_highest_mean() -> None:
    async with paged(2) as (app, _):
        columns = app.columns
        write(columns, 0, "a", -1.0)
        assert [column.best for column in columns.columns] == [True, False]
        write(columns, 1, "b", -0.5)
        assert [column.best for column in columns.columns] == [False, True]
        assert columns.best == 1


async def test_without_probabilities_there_is_no_star_no_rank_and_no_heat() -> None:
    async with paged(2) as (app, pilot):
        write(app.columns, 1, "b", None)
        await pilot.press("r", "h")
        assert not any(column.best for column in app.columns.columns)
        assert app.columns.order == [0, 1]
        assert not app.columns.by_rank
        assert app.posted == []
        write(app.columns, 1, "b", -1.0)
        await pilot.press("h")
        assert app.posted == [Columns.HeatWanted(0)]


async def test_keys_walk_choose_and_keep() -> None:
    async with paged(3) as (app, pilot):
        await pilot.press("left", "right", "enter", "3", "right", "enter", "7", "1", "enter")
        assert app.posted == [Columns.Kept(1), Columns.Kept(2), Columns.Kept(0)]


async def test_a_click_chooses_an_answer() -> None:
    async with paged(3) as (app, pilot):
        await pilot.click(app.columns.columns[2], offset=(5, 5))
        assert app.columns.current == 2
        assert [column.current for column in app.columns.columns] == [False, False, True]


async def test_ranking_puts_the_likeliest_first_and_back_and_the_arrows_follow() -> None:
    async with paged(3, size=(120, 40)) as (app, pilot):
        columns = app.columns
        for index, logprob in enumerate((-2.0, -1.0, -0.5)):
            write(columns, index, "word ", logprob)
        await pilot.press("r")
        await pilot.pause()
        assert [column.region.x for column in columns.columns] == [80, 40, 0]
        await pilot.press("left")
        assert columns.current == 1
        await pilot.press("r")
        await pilot.pause()
        assert [column.region.x for column in columns.columns] == [0, 40, 80]


async def test_a_rank_that_was_asked_for_is_brought_up_to_date_at_the_end() -> None:
    async with paged(2) as (app, pilot):
        write(app.columns, 0, "a", -1.0)
        write(app.columns, 1, "b", -2.0)
        await pilot.press("r")
        assert app.columns.order == [0, 1]
        write(app.columns, 0, "c d e f", -9.0)
        assert app.columns.order == [0, 1]  # nothing moves under the reader's eyes
        app.columns.finish_all("stop")
        assert app.columns.order == [1, 0]


async def test_escape_tells_which_answer_is_best_and_whether_some_are_still_written() -> None:
    async with paged(2) as (app, pilot):
        write(app.columns, 1, "b", -0.5)
        await pilot.press("escape")
        app.columns.finish(0, "stop")
        app.columns.finish_all()
        await pilot.press("escape")
        assert app.posted == [Columns.Left(True), Columns.Left(False)]
        assert [column.state for column in app.columns.columns] == ["● done", "■ stopped"]


async def test_where_there_is_no_room_for_columns_there_are_tabs() -> None:
    async with paged(9) as (app, pilot):
        columns = app.columns
        for index in range(9):
            write(columns, index, f"answer {index}", -0.1 * (9 - index))
        await pilot.press("4")
        await pilot.pause()
        assert shown(columns.bar)[0].startswith(" 1 −0.90 2 −0.80 3 −0.70 4 −0.60")
        assert shown(columns.bar)[0].endswith(" 9★ −0.10")
        assert columns.columns[3].size == Size(80, 23)
        assert shown(columns.columns[3])[1] == " answer 3"
        assert [column.number for column in columns.columns if column.is_on_screen] == [3]
        await pilot.click(columns.bar, offset=(2, 0))
        await pilot.pause()
        assert columns.current == 0
        assert [column.number for column in columns.columns if column.is_on_screen] == [0]


async def test_a_column_follows_the_end_only_while_it_is_in_sight() -> None:
    async with paged(2) as (app, pilot):
        column = app.columns.columns[0]
        write(app.columns, 0, "\n".join(f"line {number}" for number in range(40)) + "\n")
        await pilot.pause()
        assert column.top == column.last_top > 0
        await pilot.press("up", "up", "up")
        held = column.top
        write(app.columns, 0, "more\n" * 10)
        assert column.top == held
        await pilot.press("end")
        write(app.columns, 0, "more\n")
        assert column.top == column.last_top
        await pilot.press("home")
        assert column.top == 0
        await pilot.press("pagedown")
        assert column.top == column.page - 1
        assert shown(column)[1] == f" line {column.top}"


async def test_the_wheel_scrolls_the_column_below_it() -> None:
    async with paged(2) as (app, pilot):
        for index in (0, 1):
            write(app.columns, index, "line\n" * 60)
        await pilot.pause()
        other, column = app.columns.columns
        top = column.top
        await pilot._post_mouse_events([events.MouseScrollUp], widget=column)
        await pilot.pause()
        assert column.top == top - 3
        assert other.top == other.last_top


async def test_another_size_keeps_text_and_place() -> None:
    async with paged(2, size=(120, 40)) as (app, pilot):
        write(app.columns, 0, PROSE)
        await pilot.pause()
        column = app.columns.columns[0]
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert column.top == column.last_top
        assert all(cell_len(row.rstrip()) <= column.size.width - 2 for row in column.wrapped.rows)
        assert " ".join("".join(column.wrapped.rows).split()) == PROSE.strip()


async def test_what_is_on_the_screen_is_what_came_however_it_came() -> None:
    async with paged(2, size=(81, 24)) as (app, pilot):
        for start in range(0, 300, 6):
            app.columns.grow(0, LONG[start : start + 6], [token("x")])
            await asyncio.sleep(0.02)  # long enough to be painted
        app.columns.grow(1, LONG[:300], [token("x")])
        await pilot.pause()
        screen = app.screen._compositor.render_strips()
        painted = [
            [strip.crop(*column.region.column_span).text for strip in screen[2:23]] for column in app.columns.columns
        ]
        assert painted[0] == painted[1]
        assert any(row.strip() for row in painted[0])


async def test_output_cannot_drive_the_terminal() -> None:
    hostile = "\x1b[31mred\x1b]0;title\x07 \u202eback\u2066 \x9b2J one\rtwo [bold]x[/bold] \ud800"
    async with paged(2) as (app, pilot):
        for character in hostile:
            app.columns.grow(0, character, [token(character)])
        app.columns.fail(1, hostile)
        await pilot.pause()
        for column in app.columns.columns:
            text = " ".join(" ".join(shown(column)[1:-1]).split())
            assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e\u2066\ud800]", text)
            assert "␛[31mred␛]0;title␇" in text
            assert "onetwo [bold]x[/bold]" in text


async def test_a_heading_is_shortened_before_the_state_is() -> None:
    async with paged(3, "a model with a long name", "b", "c") as (app, _):
        assert shown(app.columns.columns[0])[0] == " 1 a model wit… ○ waiting"
