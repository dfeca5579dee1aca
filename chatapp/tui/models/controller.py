"""Models on the screen: which there are, what is done with them behind it, what is offered, and which one answers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from chatapp.models import catalogue, details, suggestion
from chatapp.models.jobs import jobs
from chatapp.settings import offline
from chatapp.tui.engines import Choice
from chatapp.tui.models.screen import ModelsScreen
from chatapp.tui.models.sections import Shelf

if TYPE_CHECKING:
    from chatapp.models.jobs.job import Job
    from chatapp.models.suggestion import Offer
    from chatapp.tui.chat.screen import ChatScreen
    from chatapp.workspace import Opened


def open_shelf(screen: ChatScreen) -> Shelf:
    """Where the models screen reads; each is called in a thread."""
    store = screen.workspace.open_store()
    return Shelf(
        machine=lambda: catalogue.read_machine(store),
        rows=lambda: catalogue.list_models(store, catalogue.read_machine(store)),
        details=lambda row: details.read_details(store, row, catalogue.read_machine(store)),
        freed=lambda row: details.count_freed(store, row),
        found=catalogue.describe_found,
    )


def show_models(screen: ChatScreen, *, downloading: bool = False) -> None:
    """Choose a model, or do something with one; where one is to be downloaded, a recommended one is marked."""

    async def take(name: str | None) -> None:
        if name:
            await use(screen, name)

    forbidden = f"--offline or {offline.VARIABLE}" if offline.wanted() else ""
    opened = screen.pane.opened
    current = opened.name if opened else screen.pane.choice.model
    models = ModelsScreen(open_shelf(screen), jobs_of(screen), current=current, offline=forbidden)
    models.listing.downloading = downloading
    screen.app.push_screen(models, take)


def jobs_of(screen: ChatScreen) -> jobs.Jobs:
    """What is done with models behind the screen."""
    if screen.jobs is None:
        screen.jobs = screen.workspace.open_jobs(partial(tell, screen))
    return screen.jobs


def tell(screen: ChatScreen, job: Job) -> None:
    """A job has got on; called in its thread."""
    screen.app.call_later(show, screen, job)


async def show(screen: ChatScreen, job: Job) -> None:
    """Show how far a job is, and take up what it brought."""
    assert screen.jobs
    screen.job_line.show(screen.jobs.all())
    for one in screen.app.screen_stack:
        if isinstance(one, ModelsScreen):
            one.show_job(job)
    if not job.ended or job.kind in ("plan", "search"):
        return
    if job.kind in ("remove", "verify"):
        screen.engines.forget(job.name)
    if job.state == "failed":
        screen.notify(f"{job.kind} {job.name}: {job.result}", severity="error", timeout=10, markup=False)
    elif job.state == "done" and job.kind == "pull":
        if job.name in screen.wanted_models and not screen.pane.begun and not screen.pane.box.text:
            await use(screen, job.name)
        else:
            screen.notify(f"{job.name} is here: ^O and enter let it answer.", markup=False, timeout=10)


async def use(screen: ChatScreen, name: str) -> None:
    """Let another model answer; the conversation stays."""
    pane = screen.pane
    if pane.reply:
        return screen.notify("The model is writing: esc stops it.")
    pane.choice = Choice(name)
    pane.opened, pane.failure = None, None
    pane.heading.model, pane.heading.about = name, ""
    if pane.dialogue:
        pane.dialogue.change(replace(pane.dialogue.setup, model=name))
    pane.status.show("○ loading", hint="what was said stays")
    await screen.warm(pane)
    pane.box.focus()


def compare(screen: ChatScreen) -> None:
    """Let several models, or one on several backends, answer the same prompt."""
    from chatapp.tui.answers.comparison import ComparisonScreen, Kept, Progress, Warn

    def open_model(choice: Choice, on_progress: Progress, warn: Warn) -> Opened:
        placement = screen.workspace.choose_placement(choice.backend)
        return screen.workspace.open_model(choice.model, placement, on_progress=on_progress, on_fallback=warn)

    def take(kept: Kept | None) -> None:
        if kept:
            screen.app.copy(kept.text)

    import backends

    names = [model.name for model in screen.workspace.open_store().list()]
    places = [name for name in backends.NAMES if backends.get(name).devices()]
    pane = screen.pane
    asked = pane.page.last("user")
    prompt = pane.box.text or (asked.text if asked else "")
    chosen = [Choice(pane.choice.model)]
    system = pane.dialogue.setup.system if pane.dialogue else ""
    comparison = ComparisonScreen(names, places, open_model, prompt=prompt, system=system, chosen=chosen)
    screen.app.push_screen(comparison, take)


def suggest(screen: ChatScreen) -> Offer | None:
    """What is worth offering at the start: to go on with pulls, or a chat model that fits; called in a thread."""
    left = jobs.waiting(screen.workspace.home / "jobs.json")
    store = screen.workspace.open_store()
    return suggestion.suggest_unfinished(store, left) or suggestion.suggest_chat_model(
        store, screen.workspace.home / "offer.json"
    )


def accept(screen: ChatScreen, taken: Offer) -> None:
    """Pull what was offered, in the background."""
    if taken.kind == "chat":
        suggestion.remember_answer(screen.workspace.home / "offer.json")
    for name in taken.names:
        screen.wanted_models.add(jobs_of(screen).add("pull", name).name)


def decline(screen: ChatScreen, left: Offer) -> None:
    """Do not offer this again."""
    if left.kind == "chat":
        suggestion.remember_answer(screen.workspace.home / "offer.json")
    else:
        jobs_of(screen).dismiss()
