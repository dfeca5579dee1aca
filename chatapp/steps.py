"""How far a command is, in lines of JSON for whoever started it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

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
