"""The generation loop: prefill, then step by step what a decoding chooses."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from backends import Session, Top
from backends.rereading import PART, Foreseeing

HOLD = 0.01
"""Seconds for which tokens may be held back, to be delivered together: less than a frame of a screen. Delivering each
token by itself costs 4 % of the built-in model's speed, as code of steps and readers evict each other from the
processor's caches."""


class Step(NamedTuple):
    """What the session reads next; no tokens at the end."""

    tokens: Sequence[int]
    """The next token of each row."""
    parents: Sequence[int]
    """The row that each of them continues."""
    urgent: bool
    """Whether there is something to deliver at once."""
    more: Sequence[int] = ()
    """Further tokens of the only row, read in the same call."""
    last: int = 1
    """The number of last tokens whose logits are wanted."""
    forget: int = 0
    """Tokens to drop from the end of the cache first."""


class Decoding(Protocol):
    """What chooses tokens: independent rows, or a search."""

    def step(self, logits: np.ndarray, top: Top | None) -> Step:
        """Choose from the rows' logits (batch, last, vocab), a view; `top` are the largest, if known."""


class Stopwatch:
    """Measures laps and their total in seconds, leaving out other turns' time."""

    def __init__(self, started: float):
        self.last = perf_counter()
        self.total = self.last - started
        """The turn's seconds so far, with preparing the prompt."""

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = perf_counter()
        passed, self.last = now - self.last, now
        self.total += passed
        return passed

    def resume(self) -> None:
        """Leave out the time since the last lap."""
        self.last = perf_counter()

    def leave_out(self, seconds: float) -> None:
        """Leave out `seconds`, at most the time since the last lap."""
        self.last = min(perf_counter(), self.last + seconds)


@dataclass(slots=True)
class Growth:
    """Some steps of the decoding, or a part of the prompt, with the seconds they took."""

    prefill: float = 0.0
    read: int = 0
    """Tokens of the prompt read."""
    decode: float = 0.0
    sampling: float = 0.0
    totals: list[float] = field(default_factory=list)
    """The turn's time after each step; empty for a part of the prompt."""
    step: Step | None = None
    """What the session reads next."""


def count_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common beginning."""
    return sum(takewhile(bool, map(eq, one, other)))


def split_prompt(session: Session, prompt: list[int], size: int = PART) -> Iterator[np.ndarray]:
    """Split a prompt into parts of one `forward` each, between which reading can be cancelled."""
    if isinstance(session, Foreseeing):
        session.expect(session.length + len(prompt))
    size = len(prompt) if session.whole_prompts else size
    for start in range(0, len(prompt), size):
        yield np.array([prompt[start : start + size]], np.int64)


def generate(
    session: Session,
    prompt: list[int],
    decoding: Decoding,
    watch: Stopwatch,
    hold: float = 0.0,
    step: Step | None = None,
) -> Generator[Growth, None, None]:
    """Yield parts of a long prompt, the first step, and then the steps of each `hold` seconds.

    With an empty prompt, the session continues with `step`.
    """
    growth, logits = Growth(), None
    for place, part in enumerate(split_prompt(session, prompt)):
        if place:
            yield growth
        logits = session.forward(part)
        growth = Growth(prefill=watch.lap(), read=part.size)
    spent = due = 0.0
    while True:
        if logits is not None:
            step = decoding.step(logits, session.top)
            if step.forget:
                session.rewind(session.length - step.forget)
            growth.sampling += watch.lap()
            growth.totals.append(watch.total)
            if step.urgent or watch.last + spent >= due:
                growth.step = step
                yield growth
                growth, due = Growth(), watch.last + hold
        if step is None or not step.tokens:
            return
        try:
            logits = read_step(session, step)
        except Exception:
            if growth.totals:  # what was chosen before the failure
                yield growth
            raise
        spent = watch.lap()
        growth.decode += spent


def read_step(session: Session, step: Step) -> np.ndarray:
    """Let the session read a step; returns the logits that it wants."""
    if list(step.parents) != list(range(session.batch)):
        session.reorder(step.parents)
    tokens = np.array([[*step.tokens, *step.more]] if step.more else step.tokens, np.int64)
    return session.forward(tokens if step.more else tokens[:, None], step.last)
