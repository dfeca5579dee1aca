"""Latencies: charts, the figures of an answer, its table, and the file they are saved in."""

import json
import math
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from chatapp.evaluation.measurements import Answer
from chatapp.text.units import bar
from chatapp.tui.insight.chart import LatencyChart, LatencyHistogram, columns, histogram, scale
from chatapp.tui.insight.heat import HeatScreen
from chatapp.tui.insight.latencies import AnswerFigures, LatencyScreen
from chatapp.tui.insight.panel import share_of
from chatapp.tui.insight.table import TokenTable
from support.insight_page import seen, shown, tokens, whole
from support.scripted_engine import summary
from support.typist import until

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
    assert bar(share, 4) == told.rstrip()


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
        for name in ("p50", "p95", "p99", "first", "last", "decode", "load", "prefill", "cached", "setup", "total"):
            assert name in text, name
        assert "qwen[b]␛[2J" in text
        assert "p95 18.5 ms" in text
        assert "median 15.5 ms" in text


async def test_what_was_not_measured_is_shown_as_missing() -> None:
    async with shown(LatencyScreen(Answer.of({}))) as (app, pilot):
        await pilot.press("down", "end", "s", "pagedown")
        await pilot.click(app.screen.query_one(TokenTable), offset=(5, 2))
        assert "no latencies were saved with this answer" in whole(app)
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
        assert f"{len(written) - 10} (10 chosen by you)" in whole(app)
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
async def test_measurements_are_saved_under_the_proposed_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    screen = LatencyScreen(answer())
    async with shown(screen) as (app, pilot):
        await pilot.press(key)
        await until(lambda: app.screen.query(Input))
        path = Path(app.screen.query_one(Input).value)
        assert path.parent == tmp_path
        await pilot.press("enter")
        await until(lambda: app._notifications)
        assert [one.message for one in app._notifications] == [f"Saved as {path}"]
        text = path.read_text(encoding="utf-8")
        assert len(json.loads(text)["tokens"] if form == "json" else text.splitlines()[1:]) == len(screen.answer.steps)
        await until(lambda: not app.screen.query(Input))
        assert screen.query_one(TokenTable).has_focus
        await pilot.press(key)
        await until(lambda: app.screen.query(Input))
        assert Path(app.screen.query_one(Input).value).name == f"{path.stem}-2.{form}"


async def test_a_file_that_is_there_is_refused_and_the_name_can_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.csv").write_text("precious")
    monkeypatch.chdir(tmp_path)
    screen = LatencyScreen(answer())
    async with shown(screen) as (app, pilot):
        await pilot.press("c")
        await until(lambda: app.screen.query(Input))
        app.screen.query_one(Input).value = "mine.csv"
        await pilot.press("enter")
        await until(lambda: app._notifications)
        told = [one.message for one in app._notifications]
        assert told == [f"{tmp_path / 'mine.csv'} already exists; choose another name."]
        assert (tmp_path / "mine.csv").read_text() == "precious"
        if os.name != "nt":  # which guesses the home folders of others
            app.screen.query_one(Input).value = "~nobody-of-this-machine/other.csv"
            await pilot.press("enter")
            await until(lambda: "no home folder" in str([one.message for one in app._notifications]))
        app.screen.query_one(Input).value = "other.csv"
        await pilot.press("enter")
        await until(lambda: (tmp_path / "other.csv").exists())


async def test_escape_forgets_the_file_then_leaves_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    screen = LatencyScreen(answer())
    async with shown(screen) as (app, pilot):
        await pilot.press("c")
        await until(lambda: app.screen.query(Input))
        await pilot.press("escape")
        await until(lambda: not app.screen.query(Input))
        assert app.screen is screen
        await pilot.press("escape")
        await until(lambda: app.screen is not screen)
        assert not list(tmp_path.iterdir())


async def test_keys_pressed_in_a_burst_all_arrive() -> None:
    view = HeatScreen(tokens(repeat=10))
    async with shown(view) as (app, pilot):
        for _ in range(50):
            app.post_message(events.Key("right", None))
        await pilot.pause()
        await until(lambda: view.heat.cursor == 50)
        assert view.panel.number == 51
