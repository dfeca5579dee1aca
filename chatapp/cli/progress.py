"""How far a command is and what it waits for, in lines for people and of JSON for whoever started it."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from chatapp.text.printable import printable
from model_store import Progress


def tell(event: str, **facts: object) -> None:
    """Print one line of JSON."""
    print(json.dumps({"event": event, **facts}), flush=True)


@contextmanager
def json_steps() -> Iterator[Progress]:
    """What tells steps in JSON."""
    yield changes(lambda step, share: tell("step", step=step, share=round(share, 2)))


def changes(show: Progress) -> Progress:
    """The same, only told when a hundredth has passed."""
    last: tuple[str, int] | None = None

    def told(step: str, share: float) -> None:
        nonlocal last
        if last != (step, round(share * 100)):
            last = step, round(share * 100)
            show(step, share)

    return told


def waiting(reason: str, pause: float) -> str:
    """What is waited for, in a line."""
    return printable(f"{reason}; trying again in {pause:.1f} s")


def note_waiting(reason: str, pause: float) -> None:
    """Tell on standard error what is waited for."""
    print(waiting(reason, pause), file=sys.stderr, flush=True)
