"""The sections of the models screen, and which actions are possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content

from chatapp.text.units import size
from chatapp.tui.models.listing import Section

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel, Machine
    from chatapp.models.facts import Details
    from chatapp.models.jobs import Job

NEEDS = {
    "use": ("here", "absent", "stopped", "elsewhere", "remote"),
    "pull": ("absent", "stopped", "elsewhere"),
    "verify": ("here",),
    "bench": ("here",),
    "remove": ("here", "broken", "stopped"),
    "cancel": (),
    "resume": (),
    "more": ("here", "broken", "stopped", "elsewhere", "absent", "remote"),
}
"""For each action, the model states in which it is possible."""
KINDS = {
    "chat": "chat",
    "code": "code",
    "instructions": "single tasks",
    "many_languages": "many languages",
    "english": "English text, older models to learn from",
}
"""The catalogue's kinds, the most wanted first."""


@dataclass(frozen=True)
class Catalogue:
    """Functions that read what the screen shows; slow, so called in threads."""

    machine: Callable[[], Machine]
    rows: Callable[[], Sequence[ListedModel]]
    details: Callable[[ListedModel], Details]
    freed: Callable[[ListedModel], int]
    """Bytes that removing a model frees."""


def group_models(
    rows: Sequence[ListedModel], hub: Sequence[ListedModel], wanted: str, sought: str
) -> Iterator[Section]:
    """The models that match a filter, by section: here, on servers, found on the Hub, the catalogue by kind."""
    known = {row.name for row in rows}
    left = [row for row in rows if matches(row, wanted)]
    here = [row for row in left if row.state not in ("absent", "remote")]
    remote = [row for row in left if row.state == "remote"]
    found = [row for row in hub if row.name not in known]
    yield f"Here · {len(here)}", here
    if remote:
        yield f"On servers · {len(remote)}", remote
    yield f"On the Hub{f', {sought!r}' if sought else ''} · {len(found)}", found
    offered = [row for row in left if row.state == "absent"]
    for kind, called in KINDS.items():
        of_kind = sorted((row for row in offered if row.kind == kind), key=lambda row: not row.recommended)
        if of_kind:
            yield f"Catalogue, {called} · {len(of_kind)}", of_kind


def list_unlisted(jobs: Sequence[Job], rows: Sequence[ListedModel]) -> Iterator[ListedModel]:
    """Rows for models that are being pulled and are in no list."""
    from chatapp.models.catalogue import ListedModel

    names = {row.name for row in rows}
    for job in jobs:
        if job.kind == "pull" and not job.ended and job.name not in names:
            yield ListedModel(job.name, "absent", "hub", job.model)


def matches(row: ListedModel, wanted: str) -> bool:
    """Whether a model matches all words of a filter."""
    about = f"{row.name} {row.kind} {row.good_for} {row.licence} {row.precision} {row.place}".lower()
    about += " recommended" if row.recommended else ""
    return all(word in about for word in wanted.lower().split())


def is_possible(action: str, row: ListedModel | None, job: Job | None) -> bool:
    """Whether an action is possible for a model with this job."""
    if row is None:
        return action not in NEEDS
    working = bool(job and not job.ended)
    if action == "cancel":
        return working
    if action == "resume":
        return not working and (row.state == "stopped" or bool(job and job.state == "failed"))
    return action not in NEEDS or (row.state in NEEDS[action] and not (working and action != "more"))


def describe_machine(machine: Machine) -> Content:
    """The first line of the screen: memory and disk space."""
    room = f"  {size(machine.memory)} of memory, {size(machine.disk_free)} of disk free"
    return Content.assemble((" models", "bold $accent"), (room, "$muted"))
