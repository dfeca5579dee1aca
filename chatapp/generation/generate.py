"""Prompt tokens in, tokens out: prefill, sample, stop."""

from collections.abc import Iterator

import numpy as np

from backends import Session
from chatapp.generation.row import Row
from chatapp.generation.stopwatch import Stopwatch

PREFILL = 512
"""Tokens of a prompt read at a time: between two parts a long prefill can be cancelled."""


def parts(session: Session, prompt: list[int]) -> Iterator[np.ndarray]:
    """The tokens of a prompt as they are read, one `forward` each."""
    size = len(prompt) if session.whole_prompts else PREFILL
    for start in range(0, len(prompt), size):
        yield np.array([prompt[start : start + size]], np.int64)


def generate(session: Session, prompt: list[int], batch: list[Row], watch: Stopwatch) -> Iterator[Row | None]:
    """Yield each row each time it has grown by a token, and None between the parts of a long prompt.

    The reader may finish a row too. Finished rows leave `batch`, which always tells, place by place,
    whose tokens the session's rows hold; the very last ones stay.
    """
    for place, part in enumerate(parts(session, prompt)):
        if place:
            yield None
        logits = session.forward(part)
        watch.lap("prefill")
    places = [0] * len(batch)  # every row continues the one that read the prompt
    while True:
        top = session.top
        for row, place in zip(batch, places, strict=True):
            row.sample(logits[place, -1], (top.tokens[place, -1], top.logits[place, -1]) if top else None)
        watch.lap("sampling")
        yield from batch
        going = [(row, place) for row, place in zip(batch, places, strict=True) if not row.finish_reason]
        if not going:
            return
        places = [place for _, place in going]
        if len(places) != session.batch:
            session.reorder(places)
        batch[:] = [row for row, _ in going]
        places = list(range(len(batch)))
        logits = session.forward(np.array([row.tokens[-1:] for row in batch], np.int64))
        watch.lap("decode")
