"""The columns of the model list; a narrow screen omits the less important ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from textual.content import Content

from chatapp.models.facts import Fact, format_speed, mark_estimate
from chatapp.models.jobs import describe_progress
from chatapp.text.printable import printable
from chatapp.text.units import count, percent, size

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel
    from chatapp.models.jobs import Job

Part = tuple[str, str]
"""A text and its style."""

MARK = 3
"""Cells for the mark before a name."""
GAP = 2
NAMES = (21, 34)
"""Minimum and maximum cells of the name."""
SAYING = 20
"""Minimum cells of the state."""
ROOMY = 34
"""Cells the state gets before columns beyond the first `WANTED` are shown."""
WANTED = 4
BAR = 12
LABEL = 11
"""Cells of a fact's label."""

BADGES: Mapping[str, Part] = {
    "verified": ("✓", "$success"),
    "failed": ("✗", "$error"),
    "unverified": ("–", "$muted"),
}
FITS = {"well": "$success", "tight": "$warning", "no": "$error"}


@dataclass(frozen=True)
class Column:
    """A column of fixed width."""

    title: str
    width: int
    cell: Callable[[ListedModel], Part]
    align: Literal["left", "right"] = "right"


COLUMNS = (
    Column("PARAMS", 6, lambda row: (count(row.parameters) if row.parameters else "", "$text")),
    Column("SIZE", 7, lambda row: (size(row.size) if row.size else "", "$text")),
    Column("FITS", 5, lambda row: (row.fits if row.parameters and row.fits != "well" else "", FITS[row.fits]), "left"),
    Column("TOK/S", 5, lambda row: (format_speed(row), "$text")),
    Column("MEMORY", 8, lambda row: (mark_estimate(row, size(row.memory)) if row.memory else "", "$text")),
    Column("PRECISION", 9, lambda row: (row.precision, "$muted"), "left"),
    Column("WHERE", 14, lambda row: (row.place, "$muted"), "left"),
    Column("LICENCE", 14, lambda row: (f"gated {row.licence}" if row.gated else row.licence, "$muted"), "left"),
)
"""The most important first."""


@dataclass(frozen=True)
class Layout:
    """The columns that fit, and the widths of the name and the state."""

    width: int
    name: int
    columns: tuple[Column, ...]
    saying: int


def choose_columns(width: int, names: Sequence[str] = ()) -> Layout:
    """The columns for a list of this width."""
    name, left = NAMES[0], width - MARK - NAMES[0] - GAP - SAYING
    shown: list[Column] = []
    for place, column in enumerate(COLUMNS):
        if left - (ROOMY - SAYING if place >= WANTED else 0) < column.width + GAP:
            break
        shown.append(column)
        left -= column.width + GAP
    longest = min(NAMES[1], max(map(len, names), default=0))
    wider = max(0, min(left - (ROOMY - SAYING if len(shown) > WANTED else 0), longest - name))
    return Layout(width, name + wider, tuple(shown), max(0, SAYING + left - wider))


def draw_heads(plan: Layout) -> Content:
    """The line of column titles."""
    cells = [(" " * MARK + fit("NAME", plan.name + GAP), "$muted")]
    cells += [(fit(column.title, column.width, column.align) + " " * GAP, "$muted") for column in plan.columns]
    return Content.assemble(*cells)


def draw_line(row: ListedModel, job: Job | None, plan: Layout, *, current: bool) -> Content:
    """A model's line."""
    mark, tone = BADGES[row.badge] if row.state == "here" else ("✗", "$error") if row.state == "broken" else (" ", "")
    if row.recommended and row.state == "absent":
        mark, tone = "★", "$warning"
    name = "bold $accent" if current else "bold $text" if row.state == "here" else "$text"
    cells: list[Part] = [(f" {mark} ", tone), (fit(printable(row.name), plan.name) + " " * GAP, name)]
    for column in plan.columns:
        text, style = column.cell(row)
        cells.append((fit(printable(text), column.width, column.align) + " " * GAP, style))
    content = Content.assemble(*cells)
    rest = Content.assemble(*describe_state(row, job, plan.saying, current=current))
    return content + rest.truncate(plan.saying, ellipsis=True)


def fit(text: str, width: int, align: Literal["left", "right"] = "left") -> str:
    """A text in exactly `width` cells."""
    content = Content(text.replace("\n", " ")).truncate(width, ellipsis=True)
    room = " " * (width - content.cell_length)
    return room + content.plain if align == "right" else content.plain + room


def describe_state(row: ListedModel, job: Job | None, width: int, *, current: bool) -> Iterator[Part]:
    """What happens with a model, or what kind it is."""
    if job and job.state == "queued":
        yield f"queued: {job.kind}", "$muted"
    elif job and job.state == "running":
        yield from draw_progress(job, width)
    elif job and job.state == "failed":
        yield f"✗ {one_line(job.result)}", "$error"
    elif row.state == "broken":
        yield f"✗ {one_line(row.note)}", "$error"
    elif row.state == "elsewhere":
        yield f"↓ {percent(row.share or 0)} {one_line(row.note)}", "$accent"
    elif row.state == "remote":
        yield one_line(row.note), "$accent" if current else "$muted"
    elif row.state == "stopped":
        yield f"stopped at {percent(row.share or 0)}", "$warning"
    elif current:
        yield "in use", "$accent"
    elif job and job.state == "done" and job.kind == "bench":
        yield one_line(job.result), "$success"
    elif row.state == "here":
        yield ("answers messages" if row.kind == "chat" else "continues text"), "$muted"
    else:
        remarks = ("recommended · " if row.recommended else "") + ("gated · " if row.gated else "")
        yield remarks + one_line(row.good_for), "$muted"


def one_line(text: str) -> str:
    """Foreign text in one printable line."""
    return " ".join(printable(text).split())


def draw_progress(job: Job, width: int) -> Iterator[Part]:
    """The progress of a job, with a bar if it fits."""
    figures = describe_progress(job)
    if job.phase != "fetching":
        yield figures, "$accent"
        return
    if width >= len(figures) + BAR + 2:
        filled = round((job.share or 0.0) * BAR)
        yield "━" * filled, "$accent"
        yield "━" * (BAR - filled), "$muted 40%"
        yield " ", ""
    else:
        yield "↓ ", "$accent"
    yield figures, "$text"
    if job.note:
        yield f" {one_line(job.note)}", "$warning"


def draw_fact(fact: Fact, width: int, tone: str = "$text", mark: str = "") -> Iterator[Part]:
    """A fact with its label, wrapped to this width."""
    value = f"{mark}{fact.value}: {fact.why}" if fact.why else f"{mark}{fact.value}"
    lines = wrap(printable(value).replace("\n", " "), max(16, width - LABEL), break_on_hyphens=False) or [""]
    yield f"{fact.label:{LABEL}}", "$muted"
    yield f"\n{'':{LABEL}}".join(lines) + "\n", tone
