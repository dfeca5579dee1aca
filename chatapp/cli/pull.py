"""`pull` and `login`: what they print, and what follows a pull until the model is ready."""

import getpass
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import TextIO

import backends
from chatapp.cli.progress import json_steps, note_waiting, tell, waiting
from chatapp.placement import measuring, selection
from chatapp.placement.selection import PlacementOptions
from chatapp.settings import offline
from chatapp.text.errors import InputError
from chatapp.text.printable import printable
from chatapp.text.units import count, duration, size
from model_store import Progress, Store, StoredModel
from model_store.hub import hub, pull
from model_store.hub.catalog import refer
from model_store.hub.progress import OnTransfer, Transfer
from model_store.hub.pull import Plan

Steps = Callable[[str], AbstractContextManager[Progress | None]]
EVERY = 0.5
"""Seconds between two lines of JSON."""
SHOWN = 4
"""Files that have a line of their own."""


@dataclass(frozen=True)
class Manner:
    """How to pull."""

    force: bool = False
    dry_run: bool = False
    as_json: bool = False


def pull_model(store: Store, name: str, wish: PlacementOptions, manner: Manner, steps: Steps) -> None:
    """Plan, fetch, lower and time a model, so that it is ready to run; `steps` shows the latter two."""
    offline.require_network("pull")
    as_json = manner.as_json

    def on_wait(reason: str, pause: float) -> None:
        if as_json:
            tell("waiting", note=waiting(reason, pause))
        else:
            note_waiting(reason, pause)

    root = store.root_of(refer(name).name)
    plan = pull.plan(root, name, precision=wish.precision, on_wait=on_wait)
    if as_json:
        tell("plan", **plan_facts(plan))
    else:
        print(printable(described(plan)), flush=True)
    if plan.problems and not manner.force:
        advice = "--force pulls it all the same" if not manner.dry_run else "it would be refused without --force"
        raise InputError(f"{plan.model.name} does not fit: {'; '.join(plan.problems)}; {advice}")
    if manner.dry_run:
        return
    try:
        with transfer_shown(as_json) as on_transfer:
            pull.fetch(root, plan, on_transfer=on_transfer)
        with json_steps() if as_json else steps(plan.model.name) as on_progress:
            place = prepare(store, plan.model.name, wish, on_progress)
    except KeyboardInterrupt:
        print("What has come is kept: pull again to go on.", file=sys.stderr)
        raise
    if as_json:
        tell("ready", model=plan.model.name, folder=str(plan.model.folder), runs_on=place)
    else:
        print(printable(f"{plan.model.name} is ready, on {place}: chatapp run {plan.model.name}"))


def prepare(store: Store, name: str, wish: PlacementOptions, on_progress: Progress | None) -> str:
    """Lower the model for where it will run, after timing it if the user has not decided that; the place."""
    model = store.get(name)
    if wish.backend:
        chosen = selection.choose_on_backend(store, model, wish, wish.backend)
        store.lowered(model, chosen.backend, chosen.precision, on_progress)
        return str(chosen)
    found, _ = measuring.measure_all(store, model, wish, on_progress=on_progress)
    ranking = selection.rank(found, wish.objective)
    if not ranking:
        failed = selection.explain_failures(found)
        raise backends.BackendError(f"{name} was pulled, but cannot run here: {failed}; see chatapp devices")
    return str(ranking[0].placement)


def described(plan: Plan) -> str:
    """A plan for people."""
    source, there = plan.repository, f", {size(plan.there)} of them here already" if plan.there else ""
    files = ", ".join(f"{file.name} ({size(file.size)})" for file in sorted(plan.files, key=lambda file: -file.size))
    rows = [
        ("from", f"{source.page} at {source.commit[:12]}"),
        ("licence", source.licence),
        ("files", f"{size(plan.size)}{there}: {files}"),
        ("model", ", ".join([plan.model.family, *kind(plan.model)])),
        ("precision", f"{plan.precision} ({plan.precision_reason})"),
        ("disk", f"{size(plan.disk_needed)} needed, {size(plan.disk_free)} free"),
        ("memory", f"{size(plan.memory_needed)} needed, {size(plan.memory)} here"),
        (
            "speed",
            f"about {float(f'{plan.tokens_per_second:.2g}'):,.0f} tokens/s, as the memory of this machine allows",
        ),
    ]
    return "\n".join([plan.model.name, *(f"  {name:9}  {value}" for name, value in rows)])


def kind(model: StoredModel) -> list[str]:
    """What there is to say about a model before it is here."""
    if model.export:
        return [f"exported for {model.export}"]
    return [f"{count(model.parameters)} parameters"]


def plan_facts(plan: Plan) -> dict[str, object]:
    """A plan for programs."""
    return {
        "model": plan.model.name,
        "repository": plan.repository.id,
        "commit": plan.repository.commit,
        "licence": plan.repository.licence,
        "family": plan.model.family,
        "parameters": plan.model.parameters or None,
        "export": plan.model.export or None,
        "files": [asdict(file) for file in plan.files],
        "size": plan.size,
        "there": plan.there,
        "precision": plan.precision,
        "precision_reason": plan.precision_reason,
        "disk_needed": plan.disk_needed,
        "disk_free": plan.disk_free,
        "memory_needed": plan.memory_needed,
        "memory": plan.memory,
        "tokens_per_second": plan.tokens_per_second,
        "problems": plan.problems,
    }


@contextmanager
def transfer_shown(as_json: bool) -> Iterator[OnTransfer]:
    """What shows a transfer: lines of JSON, bars in a terminal, or a line for each file that is whole."""
    if as_json:
        yield transfer_lines()
    elif sys.stderr.isatty():
        with bars() as show:
            yield show
    else:
        yield finished_files(sys.stderr)


def transfer_lines() -> OnTransfer:
    """Tell in JSON how far all is, twice a second, with the files that have grown since."""
    told: dict[str, int] = {}
    last = 0.0

    def show(now: Transfer) -> None:
        nonlocal last
        if now.done < now.size and time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        grown = [asdict(file) for file in now.files if told.get(file.name) != file.done]
        told.update({file.name: file.done for file in now.files})
        facts = {"done": now.done, "size": now.size, "rate": round(now.rate), "seconds_left": now.seconds_left}
        tell("progress", **facts, note=now.note, files=grown)

    return show


def finished_files(stream: TextIO) -> OnTransfer:
    """A line for each file that is whole, and for each new reason to wait."""
    told: set[str] = set()

    def show(now: Transfer) -> None:
        for file in now.files:
            if file.done == file.size and file.name not in told:
                told.add(file.name)
                print(f"{printable(file.name)}: {size(file.size)}", file=stream, flush=True)
        if now.note and now.note not in told:
            told.add(now.note)
            print(printable(now.note), file=stream, flush=True)

    return show


@contextmanager
def bars() -> Iterator[OnTransfer]:
    """Bars on standard error: for everything, and for the files that are on their way."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn
    from rich.text import Text

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=5) as progress:
        everything = progress.add_task("all", text="")
        tasks: dict[str, TaskID] = {}

        def show(now: Transfer) -> None:
            left = f", {duration(now.seconds_left)} left" if now.seconds_left is not None else ""
            text = (
                f"{size(now.done)} of {size(now.size)}, {size(round(now.rate))}/s{left if now.done < now.size else ''}"
            )
            note = f" {printable(now.note)}" if now.note else ""
            progress.update(everything, total=now.size, completed=now.done, text=Text(text + note).markup)
            coming = [file for file in now.files if 0 < file.done < file.size][:SHOWN]
            for name in set(tasks) - {file.name for file in coming}:
                progress.remove_task(tasks.pop(name))
            for file in coming:
                if file.name not in tasks:
                    tasks[file.name] = progress.add_task(printable(file.name), text="")
                progress.update(tasks[file.name], total=file.size, completed=file.done, text=size(file.size))

        yield show


def login(read: Callable[[str], str] = getpass.getpass) -> None:
    """Ask for a token of the Hub, check it, and keep it where huggingface_hub looks for it."""
    offline.require_network("login")
    place = hub.site()
    if sys.stdin.isatty():
        print(f"Make a token that may read at {place.endpoint}/settings/tokens", file=sys.stderr)
        token = read("Token (it is not shown): ")
    else:
        token = sys.stdin.readline()
    if not token.strip():
        raise InputError("no token was given; nothing was changed")
    print(f"logged in as {printable(hub.login(token.strip()))}")
