"""Widgets of the chat screen: a line with an offer, and one with the progress of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from chatapp.text.printable import printable
from chatapp.tui.widgets.buttons import as_button

if TYPE_CHECKING:
    from chatapp.models.jobs import Job
    from chatapp.models.suggestion import Offer

ACCEPT, HIDE = "f8", "f9"
"""Keys that text areas do not use."""


class OfferLine(Widget):
    """An offer, if there is one; a click on one of its keys presses it."""

    offer: reactive[Offer | None] = reactive(None, layout=True)

    def watch_offer(self) -> None:
        self.set_class(self.offer is not None, "-shown")

    def render(self) -> Content:
        if not self.offer:
            return Content()
        parts = [Content.styled(printable(self.offer.text), "$text")]
        for key, does in ((ACCEPT, printable(self.offer.does)), (HIDE, "dismisses")):
            parts += [as_button(key, key.upper(), "bold $accent") + as_button(key, f" {does}.", "$text")]
        return Content.styled(" ", "$text").join(parts)

    async def on_click(self, event: events.Click) -> None:
        if key := event.style.meta.get("key"):
            await self.run_action("screen.accept" if key == ACCEPT else "screen.hide")


class JobLine(Widget):
    """What runs in the background; hidden if nothing does."""

    job: reactive[Job | None] = reactive(None, layout=True)

    def watch_job(self) -> None:
        self.set_class(self.job is not None, "-shown")

    def show(self, jobs: list[Job]) -> None:
        """Show the running pull, or else another running job."""
        running = [job for job in jobs if job.state == "running" and job.kind not in ("plan", "search")]
        self.job = next((job for job in running if job.kind == "pull"), running[0] if running else None)

    def render(self) -> Content:
        if not (job := self.job):
            return Content()
        from chatapp.models.jobs import describe_progress  # late, to speed up the first frame

        mark = "↓" if job.kind == "pull" else "●"  # ↓ smollm2-360m 64 % 12 MB/s 18 s
        about = f" {describe_progress(job)} "
        return Content.assemble((f"{mark} ", "$accent"), (printable(job.name), "$text"), (about, "$muted"))
