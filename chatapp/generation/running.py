"""A turn while it is computed."""

import threading
from collections import deque
from collections.abc import Callable, Generator

import numpy as np

from backends import Top
from chatapp.generation.decoding.beams import Beams
from chatapp.generation.decoding.generate import Growth, Step
from chatapp.generation.decoding.row import Rows
from chatapp.generation.delta import Delta
from chatapp.generation.prompt_cache import Prefix
from chatapp.generation.turn import Turn

UNREAD = 256
"""Deltas that may wait for their reader; a turn of which more do is not computed on."""


class RunningTurn:
    """A turn while it is computed, by the thread of its reader or of another's."""

    def __init__(self, turn: Turn, lock: threading.RLock):
        """Under this lock its reader waits."""
        self.turn = turn
        self.news = threading.Condition(lock)
        """Of what its reader waits for: it is `ready`, or nobody computes."""
        self.waits = False
        """Whether its reader does."""
        self.hear: Callable[[Delta], bool] | None = None
        """Is given its deltas by the thread that computes them, and tells whether more are wanted."""
        several = Beams(turn.rows) if turn.rows[0].sampler.options.num_beams > 1 else Rows(turn.rows)
        self.decoding = turn.speculation or several
        self.inline: Generator[Growth, None, None] | None = None
        """Its steps, where it runs by itself."""
        self.unread: list[int] | None = None
        """What is left of its prompt; None while it is not being read by parts."""
        self.aside: Prefix | None = None
        """What was read of its prompt before others passed it."""
        self.passed = 0
        """Tokens of the prompts that did."""
        self.step: Step | None = None
        """What the model reads next, once there is no prompt left."""
        self.growth = Growth()
        """What is not told yet."""
        self.due = 0.0
        self.deltas: deque[Delta] = deque()
        """What the reader has not taken yet."""
        self.error: Exception | None = None
        self.broken = False
        """It was interrupted while it computed: nobody knows what the cache holds."""
        self.ended = self.left = False

    @property
    def ready(self) -> bool:
        """Whether there is something for its reader."""
        return bool(self.deltas or self.error or self.ended or self.left)

    @property
    def over(self) -> bool:
        """Whether nothing more is computed for it."""
        return bool(self.ended or self.error or self.left)

    @property
    def left_to_read(self) -> int:
        """Tokens of its prompt that the session has not read."""
        if self.unread is not None:
            return len(self.unread)
        return len(self.turn.prompt) - (len(self.aside.tokens) if self.aside else 0)

    @property
    def stalled(self) -> bool:
        return len(self.deltas) >= UNREAD

    def tell(self) -> None:
        """Make deltas of what has grown."""
        growth, self.growth = self.growth, Growth()
        self.deltas.extend(self.turn.deltas(growth, self.decoding))

    def hand_over(self) -> None:
        """Give its deltas to who hears them, if somebody does."""
        while self.hear and self.deltas and not self.left:
            self.left = not self.hear(self.deltas.popleft())

    def draw(self, logits: np.ndarray, top: Top | None, spent: float) -> None:
        """Choose the next tokens, and tell what is due; `spent` seconds were the model's."""
        watch, growth = self.turn.watch, self.growth
        self.step = self.decoding.step(logits, top)
        growth.sampling += watch.lap()
        growth.totals.append(watch.total)
        if self.step.urgent or watch.last + spent >= self.due:
            self.tell()
            self.due = watch.last + self.turn.hold
        self.ended = not self.step.tokens
