"""Walk a session through prompts in every way that generation does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from backends import Session
from chatapp.evaluation.verify.prompts import Prompts

STEPS = ("prefill", "decode", "batch")
"""Ways: a prompt in one call; a token a call; several rows that are reordered and rewound."""


@dataclass(frozen=True)
class Found:
    """Logits that a session gave to successive tokens of a row."""

    step: str
    row: int
    start: int
    """The first of the tokens, from 0."""
    logits: np.ndarray  # (positions, vocab), valid until the next call
    misranked: int
    """Positions where what the runtime itself gives as the largest logits is not that."""


def walk(session: Session, prompts: Prompts) -> Iterator[Found]:
    """Yield logits of the prompts, read alone with prompts of several lengths, and then together."""
    count, length = prompts.tokens.shape
    for row in range(count):
        cut = prompt_length(prompts, row / (count - 1) if count > 1 else 0.5)
        session.rewind(0)
        yield from read(session, "prefill", prompts, [row], 0, cut, 1 if prompts.whole else cut - prompts.first)
        for i in range(cut, length):
            yield from read(session, "decode", prompts, [row], i, i + 1, 1)
    yield from walk_together(session, prompts)


def walk_together(session: Session, prompts: Prompts) -> Iterator[Found]:
    """Yield logits of all rows at once, which then change places and are partly read again."""
    count, length = prompts.tokens.shape
    cut, order = prompt_length(prompts, 0.5), range(count)
    parents = [*reversed(order), 0]
    session.rewind(0)
    yield from read(session, "batch", prompts, order, 0, cut, 1)
    yield from read(session, "batch", prompts, order, cut, cut + 1, 1)
    session.reorder(parents)
    yield from read(session, "batch", prompts, parents, cut + 1, cut + 2, 1)
    session.rewind(cut + 1)
    stop = min(cut + 4, length)
    yield from read(session, "batch", prompts, parents, cut + 1, stop, stop - cut - 1)
    session.rewind(0)


def read(
    session: Session, step: str, prompts: Prompts, order: Sequence[int], start: int, stop: int, last: int
) -> Iterator[Found]:
    """Let the session read tokens `start` to `stop` of the rows in `order`, and yield the `last` logits of each."""
    logits = session.forward(prompts.tokens[list(order), start:stop], last=last)
    wrong = misranked(session, logits)
    for place, row in enumerate(order):
        yield Found(step, row, stop - last, logits[place], int(wrong[place]))


def misranked(session: Session, logits: np.ndarray) -> np.ndarray:
    """In how many positions of each row of logits (rows, positions, vocab) the runtime ranks them wrong."""
    top = session.top
    if top is None:
        return np.zeros(len(logits), np.int64)
    count = top.logits.shape[-1]
    largest = np.sort(np.partition(logits, -count, axis=-1)[..., -count:], axis=-1)[..., ::-1]
    theirs = np.take_along_axis(logits, top.tokens, axis=-1)
    right = (theirs == largest).all(-1) & (top.logits == largest).all(-1)
    found: np.ndarray = (~right & np.isfinite(logits).all(-1)).sum(-1)
    return found


def prompt_length(prompts: Prompts, share: float) -> int:
    """How many tokens come in one call: from as few as have logits to as many as leave two, by `share`."""
    fewest = prompts.first + 1
    return fewest if prompts.whole else fewest + round((prompts.tokens.shape[1] - 2 - fewest) * share)
