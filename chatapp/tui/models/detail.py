"""Widget: everything about the selected model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from chatapp.models.facts import Fact, describe_needs
from chatapp.text.printable import printable
from chatapp.text.units import milliseconds, size
from chatapp.tui.models.columns import BADGES, FITS, Part, draw_fact

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel
    from chatapp.models.facts import Details
    from chatapp.models.jobs import Job
    from chatapp.placement.record import Measurement

STATES = {
    "here": "on this machine",
    "broken": "cannot be read",
    "stopped": "partly downloaded",
    "elsewhere": "being downloaded",
    "absent": "not here",
    "remote": "on a server",
}


class Detail(VerticalScroll, can_focus=True):
    """What a model is, where it runs and why, and what went wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Static("", markup=False)
        self.row: ListedModel | None = None
        self.details: Details | None = None
        self.job: Job | None = None

    def compose(self) -> ComposeResult:
        yield self.page

    def show(self, row: ListedModel | None, details: Details | None, job: Job | None) -> None:
        """Show a model, or more about the same one."""
        self.row, self.details, self.job = row, details, job
        self.fill()

    def on_resize(self) -> None:
        self.fill()

    def fill(self) -> None:
        """Draw the page for the current width, once there is one."""
        if width := self.scrollable_content_region.width:
            self.page.update(draw_page(self.row, self.details, self.job, width) if self.row else Content())


def draw_page(row: ListedModel, details: Details | None, job: Job | None, width: int) -> Content:
    """Everything about a model, in a page of this width."""
    parts: list[Part] = [(printable(row.name), "bold $text"), (f"  {STATES[row.state]}\n", "$muted")]
    if job and job.result and job.state in ("failed", "done"):
        failed = job.state == "failed"
        mark, tone = ("✗", "$error") if failed else ("✓", "$success")
        parts.append((f"{mark} {job.kind}: {printable(job.result)}\n", tone))
    if row.state in ("broken", "elsewhere"):
        parts.append((f"{printable(row.note)}\n", "$error" if row.state == "broken" else "$accent"))
    badge, tone = BADGES[row.badge]
    for fact in describe_needs(row):
        mark = f"{badge} " if fact.label == "logits" else ""
        parts += draw_fact(fact, width, {"memory": FITS[row.fits], "logits": tone}.get(fact.label, "$text"), mark)
    for fact in details.facts if details else ():
        parts += draw_fact(fact, width)
    for place, one in enumerate(details.placements if details else (), 1):
        fact = Fact("runs here" if place == 1 else "", describe_placement(one, place))
        parts += draw_fact(fact, width, "$error" if one.failure else "$text")
    if details and details.card:
        parts.append((f"\n{printable(details.card)}", "$text"))
    return Content.assemble(*parts)


def describe_placement(measured: Measurement, place: int) -> str:
    """A placement: its measurements, or why it was rejected."""
    if measured.failure:
        return f"✗ {measured.placement}: {measured.failure}"
    tokens, seconds = measured.first_token[-1]
    checked = f", {measured.verdict}" if measured.verdict else ""
    return (
        f"{place}. {measured.placement}: {1 / measured.p50:,.0f} tokens/s, first token of {tokens} after "
        f"{milliseconds(seconds)}, loads in {milliseconds(measured.load)}, {size(measured.peak_memory)}{checked}"
    )
