"""Widgets of the chat screen: a quiet line with an offer, and one that tells how far a job is."""

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
"""Keys that a box of text leaves alone."""


class OfferLine(Widget):
    """An offer, as long as there is one; a click on one of its keys presses it, and the screen binds them."""

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
    """What runs in the background, in a few words; nothing where nothing does."""

    job: reactive[Job | None] = reactive(None, layout=True)

    def watch_job(self) -> None:
        self.set_class(self.job is not None, "-shown")

    def show(self, jobs: list[Job]) -> None:
        """Take up all jobs: the pull that runs is told, or else what runs."""
        running = [job for job in jobs if job.state == "running" and job.kind not in ("plan", "search")]
        self.job = next((job for job in running if job.kind == "pull"), running[0] if running else None)

    def render(self) -> Content:
        if not (job := self.job):
            return Content()
        from chatapp.models.jobs import describe_progress  # not before there is a job

        mark = "↓" if job.kind == "pull" else "●"  # ↓ smollm2-360m 64 % 12 MB/s 18 s
        about = f" {describe_progress(job)} "
        return Content.assemble((f"{mark} ", "$accent"), (printable(job.name), "$text"), (about, "$muted"))
