"""Token heat and latencies: how tokens are wrapped and painted, and what the keys do."""

import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from awkward_texts import TEXTS
from rich.cells import cell_len
from rich.color import Color as RichColor
from scripted_engine import ANSWER, pieces, summary
from textual import events
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.widget import Widget
from textual.widgets import Input
from typist import until

import themes
from chatapp.generation.delta import Alternative, Token
from chatapp.measurements import Answer
from chatapp.terminal import LONGEST_RUN
from chatapp.tui.insight.chart import LatencyChart, LatencyHistogram, columns, histogram, scale
from chatapp.tui.insight.heat import HeatView
from chatapp.tui.insight.latencies import AnswerFigures, LatencyScreen
from chatapp.tui.insight.panel import TokenPanel, bar, share_of
from chatapp.tui.insight.shades import PLAIN, STEPS, shades, step
from chatapp.tui.insight.table import TokenTable
from chatapp.tui.insight.wrapping import NEWLINE, NOTHING, Flow, label
from chatapp.tui.palette import palette

SHARES = (0.95, 0.8, 0.6, 0.3, 0.1, 0.01)
"""A probability for each look."""


def token(text: str, share: float | None = 0.95, number: int = 0, seconds: float = 0.0125) -> Token:
    if share is None:
        return Token(number, text, None, (), seconds)
    others = [
        (number, text, share),
        (901, " other", 0.03),
        (902, "\x1b[2J", 0.01),
        (903, "\n", 0.005),
        (904, "日本", 0.001),
    ]
    return Token(number, text, math.log(share), tuple(Alternative(i, t, math.log(p)) for i, t, p in others), seconds)


def tokens(text: str = ANSWER, repeat: int = 1) -> list[Token]:
    found = pieces(text * repeat)
    return [token(one, SHARES[i % len(SHARES)], i, 0.0125 + 0.001 * (i % 7)) for i, one in enumerate(found)]


class Host(App[None]):
    """Our themes around one widget, or below one screen."""

    def __init__(self, content: Widget, theme: str) -> None:
        super().__init__()
        self.content = content
        self.posted: list[Message] = []
        for ours in themes.load().values():
            self.register_theme(palette(ours))
        sixteen = palette(themes.load()["midnight"])
        sixteen.name, sixteen.ansi = "sixteen", True
        sixteen.background = sixteen.surface = sixteen.panel = sixteen.foreground = "ansi_default"
        sixteen.primary = sixteen.accent = "ansi_blue"
        sixteen.success, sixteen.warning, sixteen.error = "ansi_green", "ansi_yellow", "ansi_red"
        sixteen.variables |= BUILTIN_THEMES["ansi-dark"].variables
        sixteen.variables |= {"text": "ansi_default", "selection": "ansi_blue"}
        sixteen.variables |= dict.fromkeys(("muted", "text-muted", "scrollbar"), "ansi_bright_black")
        self.register_theme(sixteen)
        self.theme = theme

    def compose(self) -> ComposeResult:
        if not isinstance(self.content, Screen):
            yield self.content

    def on_mount(self) -> None:
        if isinstance(self.content, Screen):
            self.push_screen(self.content)
        else:
            self.content.focus()

    def on_heat_view_chosen(self, message: HeatView.Chosen) -> None:
        self.posted.append(message)

    def on_heat_view_closed(self, message: HeatView.Closed) -> None:
        self.posted.append(message)

    def on_latency_screen_exported(self, message: LatencyScreen.Exported) -> None:
        self.posted.append(message)


@asynccontextmanager
async def shown(
    content: Widget, size: tuple[int, int] = (80, 24), theme: str = "midnight"
) -> AsyncIterator[tuple[Host, Pilot[None]]]:
    app = Host(content, theme)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield app, pilot


def seen(widget: Widget) -> list[str]:
    """What a widget shows, line by line."""
    lines = widget.render_lines(widget.outer_size.region)
    assert {line.cell_length for line in lines} == {widget.outer_size.width}
    return [line.text.rstrip() for line in lines]


def whole(app: App[None]) -> str:
    """All that is on the screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def flow(texts: Sequence[str], width: int = 20) -> Flow:
    made = Flow(width)
    made.grow(texts)
    return made


def rows(made: Flow) -> list[str]:
    return ["".join(piece.text for piece in row) for row in made.rows]


# Wrapping


def test_words_are_not_broken_and_every_character_is_kept() -> None:
    made = flow(pieces("the quick brown fox jumps over the lazy dog"))
    assert rows(made) == ["the quick brown fox ", "jumps over the lazy ", "dog"]


def test_a_word_of_several_tokens_moves_to_the_next_row_whole() -> None:
    assert rows(flow(["one two thre", "e four", "teen ", "five"], 16)) == ["one two three ", "fourteen five"]


def test_a_word_longer_than_a_row_is_broken() -> None:
    assert rows(flow(["a" * 25], 11)) == ["a" * 10, "a" * 10, "a" * 5]


def test_newlines_end_rows_and_can_be_seen() -> None:
    assert rows(flow(["one\n", "\n", "two\nthree"])) == [f"one{NEWLINE}", NEWLINE, f"two{NEWLINE}", "three"]


def test_a_token_without_text_has_a_cell_of_its_own() -> None:
    made = flow(["a", "", "\u200b", "b"])
    assert rows(made)[0].startswith(f"a{NOTHING}")
    assert made.place(1) == (0, 1)


def test_wide_characters_break_anywhere_and_take_two_cells() -> None:
    made = flow(["日本語の文章です", "。東京"], 10)
    assert all(cell_len(row) <= 10 for row in rows(made))
    assert "".join(rows(made)) == "日本語の文章です。東京"
    assert made.place(1)[1] % 2 == 0


def test_a_mark_in_a_token_of_its_own_stays_on_its_letter() -> None:
    made = flow(["cafe", "\u0301", " au lait"])
    assert rows(made) == ["cafe\u0301 au lait"]
    assert made.host(1) == 0
    assert made.place(1) == made.place(0)
    assert made.rows[0][0].width == 4


def test_a_joined_emoji_of_several_tokens_takes_two_cells() -> None:
    made = flow(["👩", "\u200d", "👩", "\u200d👧", "!"])
    assert made.place(4) == (0, 2)
    assert made.host(3) == 0


def test_marks_cannot_pile_up_from_token_to_token() -> None:
    made = flow(["e", *["\u0301"] * 500])
    assert len(rows(made)[0]) == 1 + LONGEST_RUN


def test_control_characters_are_shown_and_not_obeyed() -> None:
    text = "".join(rows(flow(["\x1b[2J", "\x07", "\u202eabc", "\r", "\x9b"], 40)))
    assert text == f"␛[2J␇\N{REPLACEMENT CHARACTER}abc{NOTHING}\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("width", [5, 20, 81])
def test_growing_token_by_token_gives_the_rows_of_the_whole(width: int) -> None:
    texts = [one for text in (*TEXTS, ANSWER) for one in (text[i : i + 3] for i in range(0, len(text), 3))]
    made = Flow(width)
    for text in texts:
        made.grow([text])
    once = flow(texts, width)
    assert rows(made) == rows(once)
    assert [made.place(i) for i in range(len(texts))] == [once.place(i) for i in range(len(texts))]
    assert all(cell_len(row) <= width for row in rows(once))
    once.rewrap(width + 7)
    assert rows(once) == rows(flow(texts, width + 7))


def test_every_cell_knows_its_token() -> None:
    made = flow([one.text for one in tokens()], 30)
    for row, found in enumerate(made.rows):
        column = 0
        for piece in found:
            assert made.at(row, column) == made.at(row, column + piece.width - 1) == piece.token
            column += piece.width
        assert made.at(row, column + 5) == found[-1].token


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (" the", "␣the"),
        ("\n\n", "↵↵"),
        ("\n        ", "↵␣×8"),
        ("\t", "→"),
        ("", NOTHING),
        ("\u200b", "\\u200b"),
        ("\x1b", "␛"),
    ],
)
def test_labels_show_what_is_invisible(text: str, told: str) -> None:
    assert label(text) == told


# Colours


def luminance(colour: RichColor | None) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    assert colour
    channels = [channel / 255 for channel in colour.get_truecolor()]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: RichColor | None, second: RichColor | None) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_a_probability_has_one_look() -> None:
    assert [step(math.log(share)) for share in SHARES] == list(range(len(STEPS) + 1))
    assert step(-math.inf) == len(STEPS)
    assert step(1e-9) == 0


@pytest.mark.parametrize("name", [name for name, theme in themes.load().items() if not theme.ansi])
def test_heat_is_legible_and_rises_with_surprise(name: str) -> None:
    ours = themes.load()[name]
    looks = shades(palette(ours).variables | asdict(ours), plain=False)
    assert len(looks) == len(STEPS) + 1
    page = looks[0].bgcolor
    away = [contrast(look.bgcolor, page) for look in looks]
    assert all(later > earlier * 1.05 for earlier, later in zip(away, away[1:], strict=False)), away
    assert min(contrast(look.color, look.bgcolor) for look in looks) >= 4.5
    assert [bool(look.underline) for look in looks] == [False] * 3 + [True] * 3


def test_without_colours_every_step_still_looks_different() -> None:
    assert len({str(look) for look in PLAIN}) == len(STEPS) + 1
    assert shades({}, plain=True) == PLAIN
    assert not any(look.color or look.bgcolor for look in PLAIN)


# Heat


async def test_each_token_is_painted_by_its_probability() -> None:
    view = HeatView([token(f"w{i} ", share) for i, share in enumerate((0.95, *SHARES))])
    async with shown(view):
        strip = view.heat.render_line(0)
        found = {segment.text: segment.style for segment in strip}
        variables = view.app.theme_variables
        for place, look in enumerate(shades(variables, plain=False)):
            style = found[f"w{place + 1} "]
            assert style
            assert (style.bgcolor, style.underline, style.bold) == (look.bgcolor, look.underline, look.bold)


async def test_the_panel_tells_about_the_token_at_the_cursor() -> None:
    view = HeatView([token("One"), token(" two", 0.6, seconds=0.021)])
    async with shown(view) as (_, pilot):
        await pilot.press("right")
        text = "\n".join(seen(view.panel))
        for told in ("␣two", "2 of 2", "60.0 %", "log-probability -0.51", "21.0 ms", "␛[2J", "↵", "日本", "all others"):
            assert told in text, told
        assert "✓" in next(line for line in seen(view.panel) if "1 ␣two" in line)


async def test_the_cursor_walks_by_token_row_and_page() -> None:
    view = HeatView(tokens(repeat=8))
    async with shown(view) as (_, pilot):
        heat = view.heat
        await pilot.press("right", "right")
        assert heat.cursor == 2
        await pilot.press("down")
        assert heat.flow.place(heat.cursor)[0] == 1
        await pilot.press("up", "left", "left", "left")
        assert heat.cursor == 0
        await pilot.press("end")
        assert heat.cursor == heat.flow.rows[0][-1].token
        await pilot.press("home")
        assert heat.cursor == 0
        await pilot.press("pagedown", "pagedown")
        assert heat.flow.place(heat.cursor)[0] > 30
        assert heat.scroll_offset.y > 0
        await pilot.press("ctrl+end")
        assert heat.cursor == len(view.tokens) - 1
        await pilot.press("right", "ctrl+home", "pageup", "left")
        assert heat.cursor == 0
        assert heat.scroll_offset.y == 0


async def test_down_and_up_pass_a_token_of_many_rows() -> None:
    view = HeatView([token("a\n"), token("\n\n\n\n\n"), token("b")])
    async with shown(view) as (_, pilot):
        visited = []
        for key in ("down", "down", "down", "up", "up"):
            await pilot.press(key)
            visited.append(view.heat.cursor)
        assert visited == [1, 2, 2, 1, 0]


async def test_n_finds_the_next_unlikely_token_and_comes_round() -> None:
    view = HeatView([token("a"), token("b", 0.4), token("c"), token("d", 0.01)])
    async with shown(view) as (_, pilot):
        found = []
        for key in ("n", "n", "n", "N", "N"):
            await pilot.press(key)
            found.append(view.heat.cursor)
        assert found == [1, 3, 1, 3, 1]


async def test_n_stays_where_nothing_is_unlikely() -> None:
    view = HeatView([token("a"), token("b")])
    async with shown(view) as (_, pilot):
        await pilot.press("right", "n")
        assert view.heat.cursor == 1


async def test_a_click_puts_the_cursor_on_a_token() -> None:
    view = HeatView([token("one "), token("two "), token("three\n"), token("four")])
    async with shown(view) as (_, pilot):
        await pilot.click(view.heat, offset=(2 + 5, 1))
        assert view.heat.cursor == 1
        await pilot.click(view.heat, offset=(2 + 2, 2))
        assert view.heat.cursor == 3
        await pilot.click(view.heat, offset=(2 + 30, 1))
        assert view.heat.cursor == 2


@pytest.mark.parametrize("keys", [("2",), ("enter", "enter"), ("tab", "down", "up", "enter")])
async def test_an_alternative_is_chosen_by_number_or_in_the_panel(keys: tuple[str, ...]) -> None:
    written = [token("One", 0.95, 1), token(" two", 0.6, 2), token(" three", 0.6, 3)]
    view = HeatView(written)
    async with shown(view) as (app, pilot):
        await pilot.press("right", *keys)
        (message,) = app.posted
        assert isinstance(message, HeatView.Chosen)
        assert (message.index, message.alternative) == (1, written[1].alternatives[1])
        assert [one.id for one in message.tokens] == [1, 901]
        assert message.tokens[1].text == " other"
        assert message.tokens[1].logprob == pytest.approx(math.log(0.03))


async def test_a_click_chooses_an_alternative() -> None:
    view = HeatView([token("One", 0.6)])
    async with shown(view) as (app, pilot):
        line = next(i for i, text in enumerate(seen(view.panel)) if "3 ␛[2J" in text)
        await pilot.click(view.panel, offset=(10, line))
        (message,) = app.posted
        assert isinstance(message, HeatView.Chosen)
        assert message.alternative.text == "\x1b[2J"
        await pilot.click(view.panel, offset=(10, line + 5))
        assert len(app.posted) == 1


async def test_there_is_nothing_to_choose_where_nothing_was_kept() -> None:
    view = HeatView([token("One", None), token(" two", None)])
    async with shown(view) as (app, pilot):
        await pilot.press("1", "n", "enter", "down", "enter")
        assert app.posted == []
        assert "no probabilities were kept for this answer" in "\n".join(seen(view.summary))
        assert "no alternatives were kept" in "\n".join(seen(view.panel))


async def test_escape_leaves_the_panel_then_the_heat() -> None:
    view = HeatView(tokens())
    async with shown(view) as (app, pilot):
        await pilot.press("enter")
        assert view.panel.has_focus
        await pilot.press("escape")
        assert view.heat.has_focus
        assert app.posted == []
        await pilot.press("escape")
        assert isinstance(app.posted[0], HeatView.Closed)


async def test_while_it_grows_escape_is_left_to_whoever_stops_the_model() -> None:
    view = HeatView(tokens(), growing=True)
    async with shown(view) as (app, pilot):
        await pilot.press("escape")
        assert app.posted == []
        await pilot.press("t")
        assert isinstance(app.posted[0], HeatView.Closed)


async def test_the_end_is_followed_only_from_the_end() -> None:
    written = tokens(repeat=10)
    view = HeatView(written[:200], growing=True)
    async with shown(view) as (_, pilot):
        heat = view.heat
        assert heat.cursor == 199
        assert heat.is_vertical_scroll_end
        view.grow(written[200:400])
        await until(lambda: heat.is_vertical_scroll_end and heat.cursor == 399)
        await pilot.press("ctrl+home")
        view.grow(written[400:])
        await pilot.pause()
        assert heat.scroll_offset.y == 0
        assert heat.cursor == 0
        assert view.tokens == written
        assert f"1 of {len(written)}" in "\n".join(seen(view.panel))


async def test_heat_begins_empty_and_grows() -> None:
    view = HeatView(growing=True)
    async with shown(view) as (app, pilot):
        await pilot.press("right", "down", "end", "n", "1", "pagedown", "ctrl+end")
        await pilot.click(view.heat, offset=(5, 5))
        assert "no tokens yet" in "\n".join(seen(view.panel))
        view.grow(tokens()[:3])
        await until(lambda: "3 of 3" in "\n".join(seen(view.panel)))
        assert "perplexity" in "\n".join(seen(view.summary))


async def test_another_answer_is_shown_from_its_beginning() -> None:
    view = HeatView(tokens(repeat=10))
    async with shown(view) as (_, pilot):
        await pilot.press("ctrl+end")
        view.show([token("short")])
        await pilot.pause()
        assert (view.heat.cursor, view.heat.scroll_offset.y) == (0, 0)
        assert seen(view.heat)[1].strip() == "short"
        assert "1 of 1" in "\n".join(seen(view.panel))


async def test_the_summary_says_how_sure_the_model_was() -> None:
    view = HeatView([token("a", 0.5), token("b", 0.25), token("c", 1.0), token("d", 1.0)])
    async with shown(view, (120, 24)):
        line = seen(view.summary)[0]
        assert "1.68 perplexity   25 % below 50 %   -0.52 mean log-probability" in line
        assert line.endswith("≥ 90  ≥ 70  ≥ 50  ≥ 20  ≥ 5  < 5 %")


@pytest.mark.parametrize("size", [(60, 24), (80, 24), (120, 40)])
async def test_the_panel_is_beside_the_text_or_below_it(size: tuple[int, int]) -> None:
    view = HeatView(tokens())
    async with shown(view, size) as (app, pilot):
        beside = view.panel.region.y == view.heat.region.y
        assert beside == (size[0] >= 76)
        assert "all others" in whole(app)
        await pilot.resize_terminal(200, 60)
        await until(lambda: view.panel.region.y == view.heat.region.y)
        assert view.heat.flow.width == view.heat.scrollable_content_region.width


async def test_the_theme_can_change_while_it_is_shown() -> None:
    view = HeatView(tokens())
    async with shown(view) as (app, pilot):
        app.theme = "paper"
        await pilot.pause()
        style = list(view.heat.render_line(0))[-1].style
        assert style
        assert style.bgcolor
        assert style.bgcolor.get_truecolor() == (0xFB, 0xFA, 0xF6)


async def test_the_terminals_sixteen_colours_are_enough() -> None:
    view = HeatView(tokens())
    async with shown(view, theme="sixteen") as (_, pilot):
        await pilot.press("right", "enter")
        styles = {str(segment.style) for y in range(9) for segment in view.heat.render_line(y)}
        assert not any("#" in style for style in styles), styles
        assert any("reverse" in style for style in styles)


async def test_nothing_a_model_wrote_reaches_the_terminal_as_control() -> None:
    view = HeatView([token("\x1b[2J\x9b\u202e", 0.3, 1), token("[red]markup[/]", 0.3, 2)])
    async with shown(view) as (app, _):
        text = whole(app)
        assert "\x1b" not in text and "\x9b" not in text and "\u202e" not in text
        assert "[red]markup[/]" in text


# Charts


def test_every_latency_is_in_one_column_with_its_median_and_largest() -> None:
    latencies = [0.01] * 100
    latencies[42] = 0.5
    found = columns(latencies, 10)
    assert len(found) == 10
    assert [column.largest for column in found] == [0.01] * 4 + [0.5] + [0.01] * 5
    assert {column.median for column in found} == {0.01}
    assert len(columns(latencies, 200)) == 100
    assert len(columns(latencies[:7], 3)) == 3


def test_one_slow_token_does_not_flatten_the_others() -> None:
    assert scale([0.012] * 99 + [2.0]) == pytest.approx(0.03)
    assert scale([0.012] * 50 + [0.02]) == pytest.approx(0.03, rel=0.5)
    assert scale([0.0]) > 0


@pytest.mark.parametrize("latencies", [[0.01], [0.01] * 50, [0.001 * i for i in range(1, 90)], [0.012] * 99 + [2.0]])
def test_the_histogram_counts_every_token_once(latencies: list[float]) -> None:
    bins = histogram(latencies, 8)
    assert len(bins) <= 8
    assert sum(one.tokens for one in bins) == len(latencies)
    for one in bins:
        inside = [seconds for seconds in latencies if one.low - 1e-9 <= seconds < one.high - 1e-9]
        assert len(inside) == one.tokens
    assert (bins[-1].high == math.inf) == (max(latencies) == 2.0)


@pytest.mark.parametrize(("share", "told"), [(1.0, "████"), (0.5, "██  "), (0.0, "    "), (0.03125, "▏   ")])
def test_bars_are_as_long_as_their_share(share: float, told: str) -> None:
    assert bar(share, 4) == told


def test_shares_are_told_however_small() -> None:
    assert [share_of(share) for share in (1.0, 0.123, 0.0512, 0.0)] == ["100.0 %", "12.3 %", "5.12 %", "< .01 %"]


# Latencies


def answer(repeat: int = 1, **facts: object) -> Answer:
    written = tokens(repeat=repeat)
    written[0] = replace(written[0], seconds=0.0337)
    usage = asdict(summary(20, [one.seconds for one in written[1:]])) | {"cached_tokens": 12} | facts
    return Answer.of(usage, written, model="qwen[b]\x1b[2J")


async def test_the_figures_of_an_answer_are_there() -> None:
    async with shown(LatencyScreen(answer())) as (app, _):
        text = whole(app)
        for told in (
            "onnx · cpu · int8",
            "310 ms",
            "20 tokens",
            "12 tokens",
            "21.0 ms",
            "381 tok/s",
            "33.7 ms",
            "123 MB",
        ):
            assert told in text, told
        for name in ("p50", "p95", "p99", "first", "last", "decode", "load", "prefill", "saved"):
            assert name in text, name
        assert "qwen[b]␛[2J" in text
        assert "p95 18.5 ms" in text
        assert "median 15.5 ms" in text


async def test_what_was_not_measured_is_shown_as_missing() -> None:
    async with shown(LatencyScreen(Answer.of({}))) as (app, pilot):
        await pilot.press("down", "end", "s", "pagedown")
        await pilot.click(app.screen.query_one(TokenTable), offset=(5, 2))
        assert "no latencies were kept for this answer" in whole(app)
        figures = seen(app.screen.query_one(AnswerFigures))
        assert sum(line.count("–") for line in figures) == 15


async def test_latencies_alone_are_enough_for_the_chart() -> None:
    stored = asdict(summary(20, [0.010, 0.012, 0.030]))
    async with shown(
        LatencyScreen(
            Answer.of({name: stored[name] for name in stored if name != "latencies"}, (), (0.010, 0.012, 0.030))
        )
    ) as (
        app,
        _,
    ):
        assert "median 12.0 ms" in whole(app)
        lines = seen(app.screen.query_one(TokenTable))
        assert lines[1].split() == ["1", "–", "33.7", "ms", "–", "33.7", "ms"]
        assert lines[4].split()[:4] == ["4", "–", "30.0", "ms"]


async def test_of_several_answers_it_says_how_many_tokens_are_its_own() -> None:
    one = answer(completion_tokens=1000)
    async with shown(LatencyScreen(one)) as (app, _):
        assert f"{len(one.steps)} of 1,000" in whole(app)


async def test_an_answer_that_went_on_from_another_tells_what_it_was_given() -> None:
    written = tokens()
    usage = summary(20, [one.seconds for one in written[11:]])
    screen = LatencyScreen(Answer.of(usage, written))
    async with shown(screen) as (app, pilot):
        table, chart = screen.query_one(TokenTable), screen.query_one(LatencyChart)
        assert f"{len(written) - 10}, 10 given" in whole(app)
        assert seen(chart)[-1].split() == ["12", f"{len(written)}"]
        assert [seen(table)[1].split()[i] for i in (0, 2)] == ["1", "–"]
        assert table.row(table.steps[10], 80)[2].strip() == ""
        assert table.row(table.steps[11], 80)[2].strip() != ""
        await pilot.press(*["down"] * 11)
        await until(lambda: chart.pointed == 0)


async def test_lowering_is_told_where_it_took_time() -> None:
    async with shown(LatencyScreen(answer(lowering_seconds=2.5)), (120, 40)) as (app, _):
        assert "310 ms, lowering 2.5 s" in whole(app)


async def test_the_table_is_sorted_by_latency_and_back() -> None:
    screen = LatencyScreen(answer())
    async with shown(screen, (120, 40)) as (_, pilot):
        table = screen.query_one(TokenTable)
        await pilot.press("end", "s")
        assert table.cursor == 0
        found = [step.seconds for step in table.rows]
        assert found == sorted((step.seconds for step in screen.answer.steps), key=lambda s: -(s or 0))
        assert "▾ latency" in seen(table)[0]
        await pilot.click(table, offset=(10, 0))
        assert table.rows == screen.answer.steps
        assert "▴ #" in seen(table)[0]


async def test_the_row_at_the_cursor_is_marked_in_the_chart() -> None:
    screen = LatencyScreen(answer(repeat=10))
    async with shown(screen) as (_, pilot):
        table, chart = screen.query_one(TokenTable), screen.query_one(LatencyChart)
        assert chart.pointed is None
        await pilot.press("pagedown", "pagedown", "pagedown", "down", "up")
        assert chart.pointed == table.cursor - 1
        axis = next(line for line in seen(chart) if "└" in line)
        assert "▲" in axis
        await pilot.press("end")
        axis = next(line for line in seen(chart) if "└" in line)
        assert axis.endswith("▲")
        assert seen(table)[-1].split()[0] == f"{len(screen.answer.steps):,}"
        await pilot.press("home")
        await until(lambda: chart.pointed is None)
        assert seen(table)[1].split()[0] == "1"


async def test_a_click_takes_a_row() -> None:
    screen = LatencyScreen(answer(repeat=10))
    async with shown(screen) as (_, pilot):
        table = screen.query_one(TokenTable)
        await pilot.click(table, offset=(10, 3))
        assert table.cursor == 2


async def test_what_is_off_the_scale_is_told() -> None:
    written = tokens(repeat=6)
    written[50] = replace(written[50], seconds=1.5)
    screen = LatencyScreen(Answer.of(None, written))
    async with shown(screen, (120, 40)) as (app, _):
        lines = seen(screen.query_one(LatencyChart))
        assert "▲ 1 above, up to 1.5 s" in lines[0]
        assert "▲" in lines[1]
        assert any(line.split()[0] == "≥" for line in seen(screen.query_one(LatencyHistogram)) if line.strip())


@pytest.mark.parametrize("theme", ["paper", "contrast", "sixteen"])
@pytest.mark.parametrize("size", [(50, 16), (80, 24), (200, 60)])
async def test_it_fits_every_screen(size: tuple[int, int], theme: str) -> None:
    screen = LatencyScreen(answer(repeat=3))
    async with shown(screen, size, theme) as (app, pilot):
        assert "p95" in whole(app)
        seen(screen.query_one(TokenTable))
        seen(screen.query_one(LatencyChart))
        app.theme = "midnight"
        await pilot.pause()


@pytest.mark.parametrize(("key", "form"), [("c", "csv"), ("j", "json")])
async def test_measurements_are_saved_under_the_proposed_name(tmp_path: Path, key: str, form: str) -> None:
    screen = LatencyScreen(answer(), folder=tmp_path)
    async with shown(screen) as (app, pilot):
        await pilot.press(key)
        await until(lambda: screen.query(Input))
        path = Path(screen.query_one(Input).value)
        assert path.parent == tmp_path
        await pilot.press("enter")
        await until(lambda: app.posted)
        assert isinstance(app.posted[0], LatencyScreen.Exported)
        assert app.posted[0].path == path
        assert [one.message for one in app._notifications] == [f"Saved as {path}"]
        text = path.read_text(encoding="utf-8")
        assert len(json.loads(text)["tokens"] if form == "json" else text.splitlines()[1:]) == len(screen.answer.steps)
        await until(lambda: not screen.query(Input))
        assert screen.query_one(TokenTable).has_focus
        await pilot.press(key)
        await until(lambda: screen.query(Input))
        assert Path(screen.query_one(Input).value).name == f"{path.stem}-2.{form}"


async def test_a_file_that_is_there_is_refused_and_the_name_can_be_changed(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("precious")
    screen = LatencyScreen(answer(), folder=tmp_path)
    async with shown(screen) as (app, pilot):
        await pilot.press("c")
        await until(lambda: screen.query(Input))
        screen.query_one(Input).value = "mine.csv"
        await pilot.press("enter")
        await until(lambda: app._notifications)
        told = [one.message for one in app._notifications]
        assert told == [f"{tmp_path / 'mine.csv'} is there already; choose another name."]
        assert (tmp_path / "mine.csv").read_text() == "precious"
        screen.query_one(Input).value = "other.csv"
        await pilot.press("enter")
        await until(lambda: (tmp_path / "other.csv").exists())


async def test_escape_forgets_the_file_then_leaves_the_screen(tmp_path: Path) -> None:
    screen = LatencyScreen(answer(), folder=tmp_path)
    async with shown(screen) as (app, pilot):
        await pilot.press("c")
        await until(lambda: screen.query(Input))
        await pilot.press("escape")
        await until(lambda: not screen.query(Input))
        assert app.screen is screen
        await pilot.press("escape")
        await until(lambda: app.screen is not screen)
        assert not list(tmp_path.iterdir())


async def test_keys_pressed_in_a_burst_all_arrive() -> None:
    view = HeatView(tokens(repeat=10))
    async with shown(view) as (app, pilot):
        for _ in range(50):
            app.post_message(events.Key("right", None))
        await pilot.pause()
        await until(lambda: view.heat.cursor == 50)
        assert view.panel.number == 51


def test_the_panel_knows_the_name_of_a_token_without_text() -> None:
    end = Token(2, "", math.log(0.9), (Alternative(2, "<|im_end|>", math.log(0.9)),), 0.01)
    panel = TokenPanel()
    panel.token = end
    assert panel.marked == 0
