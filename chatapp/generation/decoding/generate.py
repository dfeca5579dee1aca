"""Prompt tokens in, tokens out: prefill, then what a decoding chooses, step by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from backends import Session, Top
from backends.rereading import Foreseeing

PREFILL = 512
"""Tokens of a prompt read at a time: between two parts a long prefill can be cancelled."""
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


class Decoding(Protocol):
    """What chooses tokens: rows drawn side by side, or a search for the likeliest text."""

    def step(self, logits: np.ndarray, top: Top | None) -> Step:
        """Choose from logits (batch, 1, vocab) of the session's rows, a view; `top` are the largest, if known."""


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
    """Steps that the decoding has taken, or another part of the prompt, and the seconds it took."""

    prefill: float = 0.0
    decode: float = 0.0
    sampling: float = 0.0
    totals: list[float] = field(default_factory=list)
    """The turn's time after each step; none if a part of the prompt was read."""


def split_prompt(session: Session, prompt: list[int]) -> Iterator[np.ndarray]:
    """The tokens of a prompt as they are read, one `forward` each."""
    if isinstance(session, Foreseeing):
        session.expect(session.length + len(prompt))
    size = len(prompt) if session.whole_prompts else PREFILL
    for start in range(0, len(prompt), size):
        yield np.array([prompt[start : start + size]], np.int64)


def generate(
    session: Session, prompt: list[int], decoding: Decoding, watch: Stopwatch, hold: float = 0.0
) -> Iterator[Growth]:
    """Yield what there is to tell: parts of a long prompt, the first step, and what was chosen in `hold` seconds."""
    growth = Growth()
    for place, part in enumerate(split_prompt(session, prompt)):
        if place:
            yield growth
        logits = session.forward(part)
        growth = Growth(prefill=watch.lap())
    spent = due = 0.0
    while True:
        tokens, parents, urgent = decoding.step(logits, session.top)
        growth.sampling += watch.lap()
        growth.totals.append(watch.total)
        if urgent or watch.last + spent >= due:
            yield growth
            growth, due = Growth(), watch.last + hold
        if not tokens:
            return
        if list(parents) != list(range(session.batch)):
            session.reorder(parents)
        try:
            logits = session.forward(np.array(tokens, np.int64)[:, None])
        except Exception:
            if growth.totals:  # what was chosen before it failed
                yield growth
            raise
        spent = watch.lap()
        growth.decode += spent
