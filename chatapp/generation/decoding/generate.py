"""Prompt tokens in, tokens out: prefill, sample, stop."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from backends import Session
from backends.rereading import Foreseeing
from chatapp.generation.decoding.row import Row

PREFILL = 512
"""Tokens of a prompt read at a time: between two parts a long prefill can be cancelled."""
HOLD = 0.01
"""Seconds for which tokens may be held back, to be told together; a frame of a screen takes longer. A step and what
surrounds it drive each other out of the caches: 4 % of the built-in model's speed, if each token is told by itself."""


class Stopwatch:
    """Tells the seconds from lap to lap and adds them up; `resume` leaves out what passed in between."""

    def __init__(self, started: float):
        self.last = perf_counter()
        self.total = self.last - started
        """Seconds of the turn so far, preparing its prompt included."""

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = perf_counter()
        passed, self.last = now - self.last, now
        self.total += passed
        return passed

    def resume(self) -> None:
        """What passed since the last lap was not ours."""
        self.last = perf_counter()


@dataclass(slots=True)
class Growth:
    """What the rows have grown by, or another part of the prompt, and the seconds it took."""

    rows: Sequence[Row] = ()
    """To be told of their new tokens; none if a part of the prompt was read."""
    prefill: float = 0.0
    decode: float = 0.0
    sampling: float = 0.0
    totals: list[float] = field(default_factory=list)
    """The turn's time when each token was drawn, from every row at once."""


def split_prompt(session: Session, prompt: list[int]) -> Iterator[np.ndarray]:
    """The tokens of a prompt as they are read, one `forward` each."""
    if isinstance(session, Foreseeing):
        session.expect(session.length + len(prompt))
    size = len(prompt) if session.whole_prompts else PREFILL
    for start in range(0, len(prompt), size):
        yield np.array([prompt[start : start + size]], np.int64)


def generate(
    session: Session, prompt: list[int], batch: list[Row], watch: Stopwatch, hold: float = 0.0
) -> Iterator[Growth]:
    """Yield what there is to tell: parts of a long prompt, the first token, and what was drawn in `hold` seconds.

    The reader may finish a row too. Finished rows leave `batch`, which always tells, place by place,
    whose tokens the session's rows hold; the very last ones stay.
    """
    growth = Growth()
    for place, part in enumerate(split_prompt(session, prompt)):
        if place:
            yield growth
        logits = session.forward(part)
        growth = Growth(prefill=watch.lap())
    places = [0] * len(batch)  # every row continues the one that read the prompt
    step = due = 0.0
    while True:
        top = session.top
        for row, place in zip(batch, places, strict=True):
            row.sample(logits[place, -1], (top.tokens[place, -1], top.logits[place, -1]) if top else None)
        growth.sampling += watch.lap()
        growth.totals.append(watch.total)
        growth.rows = batch
        if watch.last + step >= due or any(row.finish_reason for row in batch):
            yield growth
            growth, due = Growth(), watch.last + hold
            going = [(row, place) for row, place in zip(batch, places, strict=True) if not row.finish_reason]
            if not going:
                return
            places = [place for _, place in going]
            if len(places) != session.batch:
                session.reorder(places)
            batch[:] = [row for row, _ in going]
            places = list(range(len(batch)))
        try:
            logits = session.forward(np.array([row.tokens[-1:] for row in batch], np.int64))
        except Exception:
            if growth.rows:  # what was drawn before it failed
                yield growth
            raise
        step = watch.lap()
        growth.decode += step
