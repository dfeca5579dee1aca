"""Prompt tokens in, tokens out: prefill, sample, stop."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from backends import Session
from chatapp.generation.row import Row
from chatapp.generation.stopwatch import Stopwatch

PREFILL = 512
"""Tokens of a prompt read at a time: between two parts a long prefill can be cancelled."""
HOLD = 0.01
"""Seconds for which a token may be held back, to be told with the next ones. Of a small model, which needs less for
each, telling one by one takes a tenth of the speed: a step and what surrounds it drive each other out of the caches."""


class Step(NamedTuple):
    """Another token for each row, or another part of the prompt, and the seconds it took."""

    rows: Sequence[Row]
    """To be told of one token each, unless they were finished meanwhile; none if it was a part of the prompt."""
    prefill: float
    decode: float
    sampling: float
    total: float
    """Of the turn, up to here."""


def parts(session: Session, prompt: list[int]) -> Iterator[np.ndarray]:
    """The tokens of a prompt as they are read, one `forward` each."""
    size = len(prompt) if session.whole_prompts else PREFILL
    for start in range(0, len(prompt), size):
        yield np.array([prompt[start : start + size]], np.int64)


def generate(session: Session, prompt: list[int], batch: list[Row], watch: Stopwatch) -> Iterator[Step]:
    """Yield every step, soon after it was made; the reader asks its rows for what they have to tell.

    The reader may finish a row too. Finished rows leave `batch`, which always tells, place by place,
    whose tokens the session's rows hold; the very last ones stay.
    """
    prefill = decode = due = 0.0
    for place, part in enumerate(parts(session, prompt)):
        if place:
            yield Step((), prefill, 0.0, 0.0, watch.total)
        logits = session.forward(part)
        prefill = watch.lap()
    places = [0] * len(batch)  # every row continues the one that read the prompt
    untold = list[Step]()
    while True:
        top = session.top
        for row, place in zip(batch, places, strict=True):
            row.sample(logits[place, -1], (top.tokens[place, -1], top.logits[place, -1]) if top else None)
        untold.append(Step(batch, prefill, decode, watch.lap(), watch.total))
        prefill = 0.0
        if watch.last >= due or any(row.finish_reason for row in batch):
            yield from untold
            untold.clear()
            due = watch.last + HOLD
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
            yield from untold  # before the failure
            raise
        decode = watch.lap()
