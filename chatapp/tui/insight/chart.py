"""Widgets: the latency of each token as a chart, and a histogram of latencies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget

from chatapp.generation.delta import percentile
from chatapp.text.units import milliseconds, round_up

BLOCKS = " ▁▂▃▄▅▆▇█"
LEFT, RIGHT = 9, 16
"""Columns for the scale, and for the names of the lines."""
WIDEST = 3
"""Maximum columns of a bar."""
FAR = 2.5
"""Multiple of the 95th percentile above which a token is off the chart: a single outlier would flatten the rest."""


class Column(NamedTuple):
    """The tokens of one bar, in seconds."""

    median: float
    largest: float


def columns(latencies: Sequence[float], width: int) -> list[Column]:
    """A bar for each latency, or for groups of them if there is no room."""
    total = len(latencies)
    count = min(total, max(1, width))
    parts = [latencies[place * total // count : (place + 1) * total // count] for place in range(count)]
    return [Column(percentile(part, 50), max(part)) for part in parts]


def scale(latencies: Sequence[float]) -> float:
    """The top of the chart, in seconds."""
    return round_up(min(max(latencies), FAR * percentile(latencies, 95)))


def tokens_each(total: int, bars: int) -> str:
    """How many tokens a bar stands for, as text."""
    least, most = total // bars, -(-total // bars)
    return f"{least:,}" if least == most else f"{least:,}–{most:,}"


class Bin(NamedTuple):
    """The number of latencies in a range."""

    low: float
    high: float
    """Infinite for the last bin, if latencies are off the scale."""
    tokens: int


def histogram(latencies: Sequence[float], rows: int) -> list[Bin]:
    """At most `rows` bins of one round width, from the smallest latency on."""
    low, top = min(latencies), max(scale(latencies), min(latencies))
    step = round_up(max((min(top, max(latencies)) - low) / max(1, rows - 1), 1e-5))
    first = math.floor(low / step)
    places = [min(int(seconds / step + 1e-9) - first, rows - 1) for seconds in latencies]
    bins = [Bin((first + i) * step, (first + i + 1) * step, places.count(i)) for i in range(max(places) + 1)]
    beyond = max(latencies) >= bins[-1].high * 1.000001
    return [*bins[:-1], bins[-1]._replace(high=math.inf)] if beyond else bins


class LatencyChart(Widget):
    """A bar for each token, and lines at the median and the 95th percentile."""

    def __init__(self, latencies: Sequence[float], first: int = 2) -> None:
        super().__init__()
        self.latencies = latencies
        self.first = first
        """The number of the token with the first latency."""
        self.pointed: int | None = None
        """The index of the latency marked on the axis."""
        self._drawn: tuple[int, int] | None = None
        """The size for which everything but the axis is drawn."""
        self._strips: list[Strip] = []

    def point(self, number: int) -> None:
        """Mark a token on the axis, if it has a bar."""
        place = number - self.first if self.first <= number < self.first + len(self.latencies) else None
        if place != self.pointed:
            self.pointed = place
            self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn = None

    def render_line(self, y: int) -> Strip:
        width, height = self.content_size
        if self._drawn != (width, height):
            self._strips = [self.strip(line) for line in self.lines(width, height)]
            self._drawn = (width, height)
        if y == max(1, height - 3) + 1 and self.latencies:
            strip = self.strip(self.axis(*self.bars(width)))
        else:
            strip = self._strips[y] if y < len(self._strips) else Strip([])
        return strip.adjust_cell_length(width, self.rich_style)

    def strip(self, line: Sequence[tuple[str, str]]) -> Strip:
        """A line of (text, colour name) pairs, painted."""
        return Strip([Segment(text, self.look(look)) for text, look in line])

    def bars(self, width: int) -> tuple[int, int]:
        """The number of bars, and the columns of each."""
        room = max(1, width - LEFT - RIGHT)
        count = min(room, len(self.latencies))
        return count, max(1, min(WIDEST, room // count))

    def look(self, name: str) -> Style:
        """The style for a colour name, or for one on another, as in `accent on late`."""
        ink, _, paper = name.partition(" on ")
        style = self.rich_style + Style(color=self.colour(ink).rich_color)
        return style + Style(bgcolor=self.colour(paper).rich_color) if paper else style

    def colour(self, name: str) -> Color:
        variables = self.app.theme_variables
        if name in ("range", "late"):  # the part of a bar above the median
            page = Color.parse(variables["background"])
            full = Color.parse(variables["accent" if name == "range" else "warning"])
            if full.ansi is None:
                return page.blend(full, 0.5)
            name = "muted" if name == "range" else "warning"
        return Color.parse(variables[name])

    def lines(self, width: int, height: int) -> Iterator[list[tuple[str, str]]]:
        """The rows of the chart, as (text, colour name) pairs."""
        if not self.latencies:
            yield [(" no latencies were saved with this answer", "muted")]
            return
        rows, room = max(1, height - 3), max(1, width - LEFT - RIGHT)
        count, each = self.bars(width)
        bars, top = columns(self.latencies, count), scale(self.latencies)
        usual = percentile(self.latencies, 50)
        marks = self.marks(top, rows)
        yield self.title(count, top)
        for row in range(rows):
            cells = [self.cell(bar, rows - 1 - row, rows / top, usual) for bar in bars]
            if row == 0:
                cells = [("▲", "error") if bar.largest > top else cell for bar, cell in zip(bars, cells, strict=True)]
            line = marks.get(row)
            painted = [self.ruled(cell, line) if line else cell for cell in cells for _ in range(each)]
            painted += [(" ", "muted") if not line else (line[1], line[2])] * (room - len(painted))
            tick = top if row == 0 else top / 2 if rows > 4 and row == rows // 2 else None
            left = f"{f'{tick * 1000:g} ms' if tick else '':>{LEFT - 2}} {'┤' if tick else '│'}"
            yield [
                (left, "muted"),
                *(("".join(text for text, _ in run), look) for look, run in groupby(painted, lambda cell: cell[1])),
                *([(f" {line[0]}", line[2])] if line else []),
            ]
        yield []  # the axis, drawn separately because its mark moves
        first, last = f"{self.first:,}", f"{self.first + len(self.latencies) - 1:,}"
        both = first if first == last else f"{first} {last.rjust(count * each - len(first) - 1)}"
        yield [(" " * LEFT + both, "muted")]

    def title(self, bars: int, top: float) -> list[tuple[str, str]]:
        """What a bar shows, and how many tokens are off the chart."""
        told = [("latency of each token", "text")]
        if bars < len(self.latencies):
            told = [
                ("latency  ", "text"),
                ("█", "accent"),
                (" median ", "muted"),
                ("█", "range"),
                (" largest ", "muted"),
            ]
            told += [(f"of {tokens_each(len(self.latencies), bars)} tokens", "muted")]
        if above := [seconds for seconds in self.latencies if seconds > top]:
            told += [("  ▲", "error"), (f" {len(above)} above, up to {milliseconds(max(above))}", "muted")]
        return told

    def marks(self, top: float, rows: int) -> dict[int, tuple[str, str, str]]:
        """By row: name, stroke and colour of a line."""
        found: dict[int, tuple[str, str, str]] = {}
        for percent, name, stroke, colour in ((50, "median", "─", "muted"), (95, "p95", "╌", "warning")):
            seconds = percentile(self.latencies, percent)
            row = max(0, rows - 1 - int(seconds / top * rows * 0.999999))
            while row in found and row:
                row -= 1
            found[row] = (f"{name} {milliseconds(seconds)}", stroke, colour)
        return found

    def cell(self, bar: Column, level: int, rows_per_second: float, usual: float) -> tuple[str, str]:
        """One character of a bar, `level` rows above the axis, and its colour."""
        median, largest = (max(0, min(8, max(1, round(seconds * rows_per_second * 8)) - 8 * level)) for seconds in bar)
        slow = bar.largest > 2 * usual
        if bar.median == bar.largest:
            return BLOCKS[largest], "warning" if slow else "accent"
        late = "late" if slow else "range"
        if median == 8 or (median and median == largest):
            return BLOCKS[median], "accent"
        if median:
            return BLOCKS[median], f"accent on {late}" if largest == 8 else "accent"
        return BLOCKS[largest], late

    def ruled(self, cell: tuple[str, str], line: tuple[str, str, str]) -> tuple[str, str]:
        """A cell with the stroke of a line through it, unless it is the top of a bar."""
        text, look = cell
        if text == " ":
            return line[1], line[2]
        return (line[1], f"background on {look}") if text == "█" else cell

    def axis(self, count: int, each: int) -> list[tuple[str, str]]:
        """The axis, with a mark under the selected latency."""
        left, total = " " * (LEFT - 1) + "└", len(self.latencies)
        if self.pointed is None:
            return [(left + "─" * count * each, "muted")]
        bar = next(i for i in range(count) if self.pointed < (i + 1) * total // count)
        before = bar * each + each // 2
        return [(left + "─" * before, "muted"), ("▲", "text"), ("─" * (count * each - before - 1), "muted")]


class LatencyHistogram(Widget):
    """How many tokens had which latency."""

    def __init__(self, latencies: Sequence[float]) -> None:
        super().__init__()
        self.latencies = latencies

    def render(self) -> Content:
        if not self.latencies:
            return Content()
        width, height = self.content_size
        bins = histogram(self.latencies, max(2, height - 2))
        step = min(one.high - one.low for one in bins)
        digits = max(0, -math.floor(math.log10(step * 1000) + 1e-9)) if math.isfinite(step) else 1
        names = [
            f"{one.low * 1000:.{digits}f}–{one.high * 1000:.{digits}f}"
            if math.isfinite(one.high)
            else f"≥ {one.low * 1000:.{digits}f}"
            for one in bins
        ]
        longest, most = max(map(len, names)), max(one.tokens for one in bins)
        room = max(1, width - longest - len(f"{most:,}") - 2)
        lines = [Content.assemble(("tokens by latency, ms", "$text"))]
        for name, one in zip(names, bins, strict=True):
            filled = "█" * max(1, round(one.tokens / most * room)) if one.tokens else ""
            lines.append(
                Content.assemble((f"{name:>{longest}} ", "$muted"), (filled, "$accent"), (f" {one.tokens:,}", "$text"))
            )
        return Content("\n").join(lines)
