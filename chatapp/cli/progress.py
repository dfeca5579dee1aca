"""Shows the progress of a command: for people, or as lines of JSON for the program that started it."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from chatapp.cli.printing import can_redraw, note, redraw, warn
from chatapp.text.printable import printable
from chatapp.text.units import duration, size
from model_store import Progress

if TYPE_CHECKING:
    from chatapp.placement.selection import PlacementOptions
    from chatapp.workspace import Opened, Workspace
    from model_store.hub.transfer import OnTransfer, Transfer

EVERY = 0.5
"""Minimum seconds between two lines of JSON."""
SHOWN = 4
"""Maximum files with a progress bar of their own."""


def print_event(event: str, **facts: object) -> None:
    """Print one line of JSON."""
    print(json.dumps({"event": event, **facts}), flush=True)


@contextmanager
def show_steps(name: str, *, as_json: bool = False) -> Iterator[Progress | None]:
    """A callback that shows the progress of each step: as JSON lines, one per percent, or on one terminal line."""
    last: tuple[str, int] | None = None

    def tell_step(step: str, share: float) -> None:
        nonlocal last
        if last != (step, round(share * 100)):
            last = step, round(share * 100)
            print_event("step", step=step, share=round(share, 2))

    def show(step: str, share: float) -> None:
        redraw(f"{printable(name)}: {step} {share:.0%}")

    watched = can_redraw() and not as_json
    try:
        yield tell_step if as_json else show if watched else None
    finally:
        if watched:
            redraw("")


def note_wait(reason: str, pause: float, *, as_json: bool = False) -> None:
    """Say what is waited for: on standard error, or as a line of JSON."""
    text = printable(f"{reason}; retrying in {pause:.1f} s")
    if as_json:
        print_event("waiting", note=text)
    else:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def show_transfer(*, as_json: bool) -> Iterator["OnTransfer"]:
    """A callback that shows a download: as JSON lines, as bars in a terminal, or one line per finished file."""
    if as_json:
        yield tell_transfer()
    elif sys.stderr.isatty():
        with show_bars() as show:
            yield show
    else:
        yield print_finished()


def tell_transfer() -> "OnTransfer":
    """A callback that prints progress as JSON, at most twice a second, with the files that grew."""
    told: dict[str, int] = {}
    last = 0.0

    def show(now: "Transfer") -> None:
        nonlocal last
        if now.done < now.size and time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        grown = [asdict(file) for file in now.files if told.get(file.name) != file.done]
        told.update({file.name: file.done for file in now.files})
        facts = {"done": now.done, "size": now.size, "rate": round(now.rate), "seconds_left": now.seconds_left}
        print_event("progress", **facts, note=now.note, files=grown)

    return show


def print_finished() -> "OnTransfer":
    """A callback that prints a line for each finished file and each new reason to wait."""
    told: set[str] = set()

    def show(now: "Transfer") -> None:
        for file in now.files:
            if file.done == file.size and file.name not in told:
                told.add(file.name)
                print(f"{printable(file.name)}: {size(file.size)}", file=sys.stderr, flush=True)
        if now.note and now.note not in told:
            told.add(now.note)
            print(printable(now.note), file=sys.stderr, flush=True)

    return show


@contextmanager
def show_bars() -> Iterator["OnTransfer"]:
    """A callback that shows bars on standard error: one for everything, and one per file in progress."""
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

        def show(now: "Transfer") -> None:
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


@contextmanager
def tell_steps(name: str) -> Iterator[Progress]:
    """A callback that prints each step's name once, for screen readers."""
    told = ""

    def tell_step(step: str, share: float) -> None:
        nonlocal told
        if step != told:
            told = step
            note(f"{name}: {step}")

    yield tell_step


def open_model(
    workspace: "Workspace",
    placement: "PlacementOptions | None",
    name: str,
    *,
    draft: str = "",
    show: Callable[[str], AbstractContextManager[Progress | None]] = show_steps,
) -> "Opened":
    """Open a model, and a draft model if one is named, showing the progress."""
    with show(name) as on_progress:
        opened = workspace.open_model(name, placement, on_progress=on_progress, on_fallback=warn, draft=draft)
    if opened.leaves:
        note(f"Text goes to {opened.leaves}.")
    return opened
