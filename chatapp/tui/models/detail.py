"""Widget: all that is known of the selected model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from chatapp.text.printable import printable
from chatapp.text.units import count, milliseconds, size
from chatapp.tui.models.columns import BADGES, FITS, Part, about, labelled, speed

if TYPE_CHECKING:
    from chatapp.models.catalogue import Row
    from chatapp.models.details import Details
    from chatapp.models.jobs.job import Job
    from chatapp.placement.record import Measurement

FITTING = {"well": "well", "tight": "tightly", "no": "not"}
STATES = {
    "here": "on this machine",
    "broken": "cannot be read",
    "stopped": "downloaded in part",
    "elsewhere": "being downloaded",
    "absent": "not here",
}


class Detail(VerticalScroll, can_focus=True):
    """What a model is, where it runs and why, and what went wrong with it."""

    DEFAULT_CSS = """
    Detail {
        background: $surface;
        color: $text;
        padding: 0 2;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        Static { height: auto; background: $surface; color: $text; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.page = Static("", markup=False)
        self.row: Row | None = None
        self.details: Details | None = None
        self.job: Job | None = None

    def compose(self) -> ComposeResult:
        yield self.page

    def show(self, row: Row | None, details: Details | None, job: Job | None) -> None:
        """Show another model, or what has become known of it."""
        self.row, self.details, self.job = row, details, job
        self.fill()

    def on_resize(self) -> None:
        self.fill()

    def fill(self) -> None:
        """Write the page for the width there is; before the first layout there is none."""
        if width := self.scrollable_content_region.width:
            self.page.update(described(self.row, self.details, self.job, width) if self.row else Content())


def described(row: Row, details: Details | None, job: Job | None, width: int) -> Content:
    """A model in a page of so many columns."""
    parts: list[Part] = [(printable(row.name), "bold $text"), (f"  {STATES[row.state]}\n", "$muted")]
    if job and job.result and job.state in ("failed", "done"):
        failed = job.state == "failed"
        mark, tone = ("✗", "$error") if failed else ("✓", "$success")
        parts.append((f"{mark} {job.kind}: {printable(job.result)}\n", tone))
    if row.state in ("broken", "elsewhere"):
        parts.append((f"{printable(row.note)}\n", "$error" if row.state == "broken" else "$accent"))
    parts += figures(row, width)
    for name, value in details.facts if details else ():
        parts += labelled(name, value, width)
    for place, way in enumerate(details.ways if details else (), 1):
        tone = "$error" if way.failure else "$text"
        parts += labelled("runs here" if place == 1 else "", way_of(way, place), width, tone)
    if details and details.card:
        parts.append((f"\n{printable(details.card)}", "$text"))
    return Content.assemble(*parts)


def figures(row: Row, width: int) -> Iterator[Part]:
    """What a model takes and how fast it is."""
    if not row.parameters:
        return
    there = "on the disk" if row.state == "here" else "to download"
    amount = f"about {size(row.size)}" if row.state == "absent" else size(row.size)
    yield from labelled("size", f"{count(row.parameters)} parameters at {row.precision}, {amount} {there}", width)
    yield from labelled(
        "memory", f"{about(row, size(row.memory))} to run: fits {FITTING[row.fits]}", width, FITS[row.fits]
    )
    where = f" on {row.place}" if row.place else ""
    how = "measured here" if row.measured else "as the memory of this machine allows"
    yield from labelled("speed", f"{speed(row)} tokens/s{where}, {how}", width)
    if row.state == "here":
        mark, tone = BADGES[row.badge]
        against = f" against {row.against}" if row.against else ""
        yield from labelled("logits", f"{mark} {row.badge}{against}", width, tone)


def way_of(way: Measurement, place: int) -> str:
    """A way of running a model: its figures, or why it is not taken."""
    if way.failure:
        return f"✗ {way.placement}: {way.failure}"
    first = f", first token of {way.first_token[-1][0]} after {milliseconds(way.first_token[-1][1])}"
    checked = f", {way.verdict}" if way.verdict else ""
    return (
        f"{place}. {way.placement}: {1 / way.p50:,.0f} tokens/s{first}, "
        f"loads in {milliseconds(way.load)}, {size(way.peak_memory)}{checked}"
    )
