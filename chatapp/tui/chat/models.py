"""Models on the chat screen: choosing one, and the jobs in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatapp.models import catalogue, facts, suggestion
from chatapp.settings import offline
from chatapp.tui.chat.reply import BUSY
from chatapp.tui.engines import Choice
from chatapp.tui.models.screen import ModelsScreen
from chatapp.tui.models.sections import Catalogue

if TYPE_CHECKING:
    from chatapp.models.jobs import Job
    from chatapp.models.suggestion import Offer
    from chatapp.tui.chat.conversations import Conversations
    from chatapp.tui.models.lines import JobLine


class Models:
    """The model list of a chat screen, its background jobs, and switching models."""

    def __init__(self, screen: Conversations, line: JobLine) -> None:
        self.screen, self.line = screen, line
        """The screen, and the line on it that shows the jobs."""
        self.jobs = screen.workspace.open_jobs(self.hear)
        self.wanted: set[str] = set()
        """Models to use as soon as their pull is done."""

    def open(self, *, downloading: bool = False) -> None:
        """Open the list of models; with `downloading`, a recommended one is highlighted."""

        async def take(name: str | None) -> None:
            if name:
                await self.use(name)

        forbidden = f"--offline or {offline.VARIABLE}" if offline.wanted() else ""
        opened = self.screen.pane.opened
        current = opened.name if opened else self.screen.pane.choice.model
        store = self.screen.workspace.open_store()
        found = Catalogue(
            machine=lambda: catalogue.read_machine(store),
            rows=lambda: [
                *catalogue.list_models(store, catalogue.read_machine(store)),
                *catalogue.describe_remotes(self.screen.workspace.read_remotes()),
            ],
            details=lambda row: facts.read_details(store, row, catalogue.read_machine(store)),
            freed=lambda row: facts.count_freed(store, row),
        )
        models = ModelsScreen(found, self.jobs, current=current, offline=forbidden)
        models.listing.downloading = downloading
        self.screen.app.push_screen(models, take)

    async def use(self, name: str) -> None:
        """Continue the conversation with another model."""
        pane = self.screen.pane
        if pane.busy:
            return self.screen.notify(BUSY)
        if pane.opened:
            pane.before = pane.choice, pane.opened
        pane.choice, pane.opened, pane.failure = Choice(name), None, None
        pane.heading.model, pane.heading.about = name, ""
        pane.status.show("○ loading", hint="the conversation stays")
        await self.screen.give_model(pane)
        pane.box.focus()

    def hear(self, job: Job) -> None:
        """A job has changed; called on its thread."""
        self.screen.app.call_later(self.show, job)

    async def show(self, job: Job) -> None:
        """Show a job's progress, and react to its end."""
        self.line.show(self.jobs.all())
        for one in self.screen.app.screen_stack:
            if isinstance(one, ModelsScreen):
                one.show_job(job)
        if not job.ended or job.kind in ("plan", "search"):
            return
        if job.kind in ("remove", "verify"):
            self.screen.engines.forget(job.name)
        if job.state == "failed":
            self.screen.notify(f"{job.kind} {job.name}: {job.result}", severity="error", timeout=10, markup=False)
        elif job.state == "done" and job.kind == "pull":
            if job.name in self.wanted and not self.screen.pane.begun and not self.screen.pane.box.text:
                await self.use(job.name)
            else:
                self.screen.notify(f"{job.name} is ready: ^O and Enter use it.", markup=False, timeout=10)

    def answer_offer(self, offer: Offer, *, accepted: bool) -> None:
        """Pull what was offered in the background, or do not offer it again."""
        if offer.kind == "chat":
            suggestion.remember_answer(self.screen.workspace.home / "offer.json")
        elif not accepted:
            self.jobs.dismiss()
        if accepted:
            for name in offer.names:
                self.wanted.add(self.jobs.add("pull", name).name)
