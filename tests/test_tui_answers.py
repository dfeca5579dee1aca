"""Several answers side by side, and comparisons of models, driven as their user would."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from awkward_texts import LONG, TEXTS
from conftest import HERE
from rich.cells import cell_len
from scripted_engine import FIBONACCI, Placement, ScriptedEngine
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

import themes
from chatapp.generation import Options, Token
from chatapp.selection import Wish, open_engine
from chatapp.stores import open_store
from chatapp.terminal import LONGEST_RUN
from chatapp.tui.answers.columns import Columns, rows_of, tiles
from chatapp.tui.answers.comparison import ComparisonScreen, Kept
from chatapp.tui.answers.running import Progress, Warn, Way
from chatapp.tui.answers.wrapping import Wrapped, wrap
from chatapp.tui.opened import Opened
from chatapp.tui.palette import palette

PROSE = "the quick brown fox jumps over the lazy dog and on and on " * 100


async def until(condition: Callable[[], object], what: str = "") -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what or condition}"
        await asyncio.sleep(0.01)


def token(text: str, logprob: float | None = -0.5, seconds: float = 0.02) -> Token:
    return Token(1, text, logprob, (), seconds)


def shown(widget: Widget) -> list[str]:
    """The lines of a widget as they are on the screen."""
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


# Wrapping


@pytest.mark.parametrize("width", [4, 11, 26, 80])
def test_text_that_grows_is_wrapped_as_if_it_had_come_whole(width: int) -> None:
    whole, growing = Wrapped(width), Wrapped(width)
    whole.grow(LONG)
    for start in range(0, len(LONG), 7):
        growing.grow(LONG[start : start + 7])
    assert growing.rows == whole.rows


def test_no_row_is_wider_than_the_column() -> None:
    for text in TEXTS:
        wrapped = Wrapped(9)
        wrapped.grow(text)
        assert all(cell_len(row.removesuffix(" ")) <= 9 for row in wrapped.rows)


def test_rows_break_between_words_and_long_words_are_cut() -> None:
    assert wrap("one two three", 8) == ["one two ", "three"]
    assert wrap("a abcdefghij", 4) == ["a ", "abcd", "efgh", "ij"]
    assert wrap("    return a", 8) == ["    ", "return a"]


def test_growing_tells_the_first_row_that_changed() -> None:
    wrapped = Wrapped(8)
    assert wrapped.grow("one two") == 0
    assert wrapped.grow(" three") == 0
    assert wrapped.grow("\nfour") == 1
    assert wrapped.rows == ["one two ", "three", "four"]


def test_another_width_wraps_anew() -> None:
    wrapped = Wrapped(80)
    wrapped.grow("one two three\nfour")
    wrapped.resize(8)
    assert wrapped.rows == ["one two ", "three", "four"]


def test_a_flood_of_invisible_characters_in_small_doses_is_cut_off() -> None:
    wrapped = Wrapped(20)
    for _ in range(1000):
        wrapped.grow("\u200b" * 5)
    assert wrapped.rows == ["\u200b" * LONGEST_RUN]


def test_a_line_of_a_megabyte_costs_no_more_than_its_length() -> None:
    wrapped = Wrapped(40)
    start = time.process_time()
    for _ in range(1000):
        wrapped.grow("x" * 1000)
    assert time.process_time() - start < 2
    assert len(wrapped.rows) == 25_000


# Columns


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


class Page(App[None]):
    """An app that shows columns and keeps what they post."""

    def __init__(self, columns: Columns) -> None:
        super().__init__()
        for theme in themes.load().values():
            self.register_theme(palette(theme))
        self.theme = "midnight"
        self.columns = columns
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.columns

    def on_mount(self) -> None:
        self.columns.focus()

    def on_columns_kept(self, message: Columns.Kept) -> None:
        self.posted.append(message)

    def on_columns_heat_wanted(self, message: Columns.HeatWanted) -> None:
        self.posted.append(message)

    def on_columns_left(self, message: Columns.Left) -> None:
        self.posted.append(message)


@asynccontextmanager
async def paged(n: int, *headings: str, size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Page, Pilot[None]]]:
    app = Page(Columns(n, headings))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


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
        means = [column.score.mean or 0.0 for column in columns]
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
        assert app.posted == [Columns.Left(1, True), Columns.Left(1, False)]
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


# Comparisons


@dataclass
class Shelf:
    """Opens scripted engines by name and keeps them."""

    engines: dict[str, ScriptedEngine]
    opened: list[str] = field(default_factory=list)
    warning: str = ""

    def open(self, model: str, backend: str | None, on_progress: Progress, warn: Warn) -> Opened:
        name = str(Way(model, backend))
        self.opened.append(name)
        on_progress("lowering", 0.5)
        if self.warning:
            warn(self.warning)
        if name not in self.engines:
            raise RuntimeError(f"{name} is not here")
        return Opened(self.engines[name], model, 1, 0.1)


class Desk(Page):
    """An app that opens a comparison."""

    def __init__(self, screen: ComparisonScreen) -> None:
        super().__init__(Columns(2))
        self.comparison = screen
        self.results: list[Kept | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.comparison, self.results.append)

    @property
    def toasts(self) -> list[str]:
        return [notification.message for notification in self._notifications]


@asynccontextmanager
async def comparing(
    shelf: Shelf, *chosen: Way, prompt: str = "def f():", size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Desk, Pilot[None], ComparisonScreen]]:
    screen = ComparisonScreen(["builtin", "other"], ["onnx", "openvino"], shelf.open, prompt=prompt, chosen=chosen)
    app = Desk(screen)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(lambda: app.screen is screen and screen.is_mounted, "the screen")
        await pilot.pause()
        yield app, pilot, screen
        for engine in shelf.engines.values():
            engine.go.set()


def column_text(screen: ComparisonScreen, index: int) -> str:
    assert screen.columns
    return "".join(screen.columns.columns[index].wrapped.parts)


BOTH = (Way("builtin", "onnx"), Way("builtin", "openvino"))


def both(**options: Any) -> Shelf:  # Any: fields of ScriptedEngine
    placements = {"onnx": Placement(), "openvino": Placement("openvino")}
    engines = {f"builtin on {name}": ScriptedEngine(placement=at, **options) for name, at in placements.items()}
    return Shelf(engines)


async def test_the_same_prompt_goes_to_both_one_after_the_other() -> None:
    shelf = both()
    async with comparing(shelf, *BOTH) as (_, pilot, screen):
        await pilot.press("enter")
        await until(lambda: screen.results and not screen.answering, "the comparison to end")
        await pilot.pause()
        assert shelf.opened == ["builtin on onnx", "builtin on openvino"]
        assert [column_text(screen, index) for index in (0, 1)] == [FIBONACCI, FIBONACCI]
        assert screen.columns
        lines = shown(screen.columns.columns[0])
        assert re.fullmatch(r" 1 ★ −1.38 builtin on onnx +● done", lines[0])
        assert lines[-3:] == [" 103 tokens  67.6 tok/s", " first 12.5 ms p95 31.1 ms", " onnx · cpu · int8"]
        assert shown(screen.table)[0].split()[:4] == ["first", "token", "tok/s", "p95"]
        assert shown(screen.verdict) == [
            "builtin on onnx and builtin on openvino write equally fast, within 3 %.",
            "The texts of both are equal: 103 tokens.",
        ]


async def test_the_answer_that_is_kept_is_the_result() -> None:
    shelf = both()
    shelf.engines["builtin on openvino"].text = "    return [31;1m\x1b"
    async with comparing(shelf, *BOTH) as (app, pilot, screen):
        await pilot.press("enter")
        await until(lambda: screen.results and not screen.answering)
        await pilot.press("2", "enter")
        await until(lambda: app.results)
        kept = Kept("builtin on openvino", "    return [31;1m\x1b", "builtin", "openvino")
        assert app.results == [kept]


async def test_escape_stops_the_models_then_shows_the_form_then_leaves() -> None:
    shelf = both(pause_after=5)
    first = shelf.engines["builtin on onnx"]
    first.go.set()  # for the warm-up
    async with comparing(shelf, *BOTH) as (app, pilot, screen):
        first.delay = 0.05
        await pilot.press("f5")
        await until(lambda: screen.texts and screen.texts[0], "some text")
        app.post_message(events.Key("escape", None))
        await until(lambda: not screen.answering, "the stop")
        assert screen.columns
        assert [column.state for column in screen.columns.columns] == ["■ stopped", "■ stopped"]
        await until(lambda: screen.running and not screen.running.is_alive(), "the thread to end")
        assert not first.busy
        assert shelf.opened == ["builtin on onnx"]
        assert not screen.table.display
        await pilot.press("escape")
        await until(lambda: screen.columns is None)
        await pilot.press("escape")
        await until(lambda: app.results)
        assert app.results == [None]


async def test_one_that_cannot_be_opened_says_why_and_the_other_answers() -> None:
    shelf = both()
    async with comparing(shelf, Way("other"), BOTH[0]) as (_, pilot, screen):
        await pilot.press("enter")
        await until(lambda: screen.results and not screen.answering)
        assert screen.columns
        first, second = screen.columns.columns
        assert (first.state, second.state) == ("✗ failed", "● done")
        assert column_text(screen, 0) == "RuntimeError: other is not here"
        await pilot.press("enter")
        assert screen.is_current  # there is nothing to keep


async def test_a_fallback_to_another_backend_is_told() -> None:
    shelf = both()
    shelf.warning = "onnx failed on cpu: [oops]"
    async with comparing(shelf, *BOTH) as (app, pilot, screen):
        await pilot.press("enter")
        await until(lambda: screen.results and not screen.answering)
        assert "onnx failed on cpu: [oops]; trying the next best." in app.toasts


async def test_the_form_asks_for_a_prompt_and_for_two_models() -> None:
    shelf = both()
    async with comparing(shelf, prompt="") as (app, pilot, screen):
        assert screen.asked.has_focus
        await pilot.press("f5")
        await pilot.press("h", "i", "enter")
        assert screen.picker.has_focus
        await pilot.press("enter")
        assert app.toasts == ["Write a prompt first.", "Choose two or more with space."]
        assert shelf.opened == []


async def test_models_are_found_by_typing_and_chosen_with_space() -> None:
    shelf = both(text="a b")
    async with comparing(shelf) as (_, pilot, screen):
        await pilot.press(*"builtinon", "space", "down", "space")
        assert screen.picker.chosen == ["builtin on onnx", "builtin on openvino"]
        assert shown(screen.picker)[:4] == [
            " 2 of at most 4 chosen   only names with “builtinon”",
            " 1 builtin on onnx",
            " 2 builtin on openvino",
            "",
        ]
        await pilot.press("space", *["backspace"] * 9, "down", "down", "down", "space")
        assert screen.picker.chosen == ["builtin on onnx", "other"]


async def test_at_most_four_are_compared() -> None:
    async with comparing(both()) as (app, pilot, screen):
        await pilot.press(*["space", "down"] * 5)
        assert len(screen.picker.chosen) == 4
        assert app.toasts == ["At most 4 side by side; leave one out with space."]


async def test_tokens_and_order_are_the_users_choice() -> None:
    shelf = both()
    async with comparing(shelf, *BOTH) as (_, pilot, screen):
        await pilot.press("tab", "left", "tab", "right", "f5")
        await until(lambda: screen.results and not screen.answering)
        assert [engine.options[-1].max_tokens for engine in shelf.engines.values()] == [64, 64]
        assert screen.columns
        assert "64 tokens at most, in turn" in shown(screen.columns.bar)[0]
        assert [column.state for column in screen.columns.columns] == ["■ length", "■ length"]


async def test_the_same_can_be_compared_again() -> None:
    shelf = both(text="a b c")
    async with comparing(shelf, *BOTH) as (_, pilot, screen):
        for _round in range(2):
            await pilot.press("f5")
            await until(lambda: screen.results and not screen.answering)
        assert shelf.opened == ["builtin on onnx", "builtin on openvino"] * 2
        assert [column_text(screen, index) for index in (0, 1)] == ["a b c", "a b c"]


async def test_leaving_the_screen_frees_the_engine() -> None:
    shelf = both(delay=0.01)
    async with comparing(shelf, *BOTH) as (app, pilot, screen):
        app.post_message(events.Key("f5", None))
        await until(lambda: screen.texts and screen.texts[0])
        app.post_message(events.Key("enter", None))
        await until(lambda: app.results)
        assert app.results[0] is not None
        assert FIBONACCI.startswith(app.results[0].text)
        await until(lambda: screen.running and not screen.running.is_alive(), "the thread to end")
        assert not any(engine.busy for engine in shelf.engines.values())


@pytest.mark.skipif("openvino" not in HERE, reason="OpenVINO is not for this machine")
async def test_the_builtin_model_is_compared_on_two_backends() -> None:
    def open_real(model: str, backend: str | None, on_progress: Progress, warn: Warn) -> Opened:
        wish = Wish(backend or "onnx")
        engine = open_engine(open_store(), model, wish, on_progress=on_progress, on_fallback=warn)
        return Opened(engine, model, 1, engine.load_seconds)

    screen = ComparisonScreen(["builtin"], ["onnx", "openvino"], open_real, prompt="def fibonacci(n):", chosen=BOTH)
    app = Desk(screen)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.screen is screen and screen.is_mounted)
        await pilot.pause()
        app.post_message(events.Key("f5", None))
        await until(lambda: len(screen.results) == 2 and not screen.answering, "two results")
        await pilot.pause()
        assert screen.columns
        feet = [shown(column)[-1] for column in screen.columns.columns]
        assert [foot.split(" · ")[0] for foot in feet] == [" onnx", " openvino"]
        assert [result.text for result in screen.results] == screen.texts
        assert all(result.usage.completion_tokens for result in screen.results)
        report = "\n".join(shown(screen.verdict))
        assert re.search("write(s .* times as| equally) fast", report)
        assert re.search("The texts (of both are equal|differ)", report)
