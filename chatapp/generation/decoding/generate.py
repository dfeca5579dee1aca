"""Prompt tokens in, tokens out: prefill, then what a decoding chooses, step by step."""

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
"""Seconds for which tokens may be held back, to be told together; a frame of a screen takes longer. A step and what
surrounds it drive each other out of the caches: 4 % of the built-in model's speed, if each token is told by itself."""


class Step(NamedTuple):
    """What the session goes on with; no tokens at the end."""

    tokens: Sequence[int]
    """The next one of each of its rows."""
    parents: Sequence[int]
    """The row that each of these continues."""
    urgent: bool
    """Whether there is more to tell than that rows have grown."""
    more: Sequence[int] = ()
    """Tokens that follow the next one of the only row, read with it."""
    last: int = 1
    """Of how many of the tokens read, the last ones, the logits are wanted."""
    forget: int = 0
    """Tokens at the cache's end that are not the reply's."""


class Decoding(Protocol):
    """What chooses tokens: rows drawn side by side, or a search for the likeliest text."""

    def step(self, logits: np.ndarray, top: Top | None) -> Step:
        """Choose from logits (batch, last, vocab) of the session's rows, a view; `top` are the largest, if known."""


class Stopwatch:
    """Tells the seconds from lap to lap and adds them up, without what passed for others."""

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

    def leave_out(self, seconds: float) -> None:
        """So many seconds were not ours, or all since the last lap, where that is less."""
        self.last = min(perf_counter(), self.last + seconds)


@dataclass(slots=True)
class Growth:
    """Steps that the decoding has taken, or another part of the prompt, and the seconds it took."""

    prefill: float = 0.0
    read: int = 0
    """Tokens of that part."""
    decode: float = 0.0
    sampling: float = 0.0
    totals: list[float] = field(default_factory=list)
    """The turn's time after each step; none if a part of the prompt was read."""
    step: Step | None = None
    """What the session has to go on with after them."""


def count_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    return sum(takewhile(bool, map(eq, one, other)))


def split_prompt(session: Session, prompt: list[int], size: int = PART) -> Iterator[np.ndarray]:
    """The tokens of a prompt as they are read, one `forward` each: between two of them one can stop."""
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
    """Yield what there is to tell: parts of a long prompt, the first step, and what was chosen in `hold` seconds.

    Where there is no prompt any more, the session goes on with `step`.
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
            if growth.totals:  # what was chosen before it failed
                yield growth
            raise
        spent = watch.lap()
        growth.decode += spent


def read_step(session: Session, step: Step) -> np.ndarray:
    """Let the session read what was chosen, and return the logits that are wanted."""
    if list(step.parents) != list(range(session.batch)):
        session.reorder(step.parents)
    tokens = np.array([[*step.tokens, *step.more]] if step.more else step.tokens, np.int64)
    return session.forward(tokens if step.more else tokens[:, None], step.last)
