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
"""A turn with more deltas than this waiting for its reader pauses."""


class RunningTurn:
    """A turn while it is computed, by its reader's thread or another reader's."""

    def __init__(self, turn: Turn, lock: threading.RLock):
        """`lock` is the one under which its reader waits."""
        self.turn = turn
        self.news = threading.Condition(lock)
        """Notifies its reader that the turn is `ready`, or that nobody computes."""
        self.waits = False
        """Whether its reader is waiting."""
        self.hear: Callable[[Delta], bool] | None = None
        """Called with its deltas by the computing thread; returns whether more are wanted."""
        several = Beams(turn.rows) if turn.rows[0].sampler.options.num_beams > 1 else Rows(turn.rows)
        self.decoding = turn.speculation or several
        self.inline: Generator[Growth, None, None] | None = None
        """Its steps while it runs alone."""
        self.unread: list[int] | None = None
        """The unread rest of its prompt; None while it is not being read in parts."""
        self.aside: Prefix | None = None
        """What was read of its prompt before shorter ones overtook it."""
        self.passed = 0
        """Tokens of those shorter prompts."""
        self.step: Step | None = None
        """What the model reads next, after the prompt."""
        self.growth = Growth()
        """Steps without a delta yet."""
        self.due = 0.0
        self.deltas: deque[Delta] = deque()
        """Deltas that the reader has not taken yet."""
        self.error: Exception | None = None
        self.broken = False
        """Interrupted while computing, so that the cache's contents are unknown."""
        self.ended = self.left = False

    @property
    def ready(self) -> bool:
        """Whether its reader can go on."""
        return bool(self.deltas or self.error or self.ended or self.left)

    @property
    def over(self) -> bool:
        """Whether nothing more will be computed for it."""
        return bool(self.ended or self.error or self.left)

    @property
    def left_to_read(self) -> int:
        """Tokens of its prompt that are not read yet."""
        if self.unread is not None:
            return len(self.unread)
        return len(self.turn.prompt) - (len(self.aside.tokens) if self.aside else 0)

    @property
    def stalled(self) -> bool:
        return len(self.deltas) >= UNREAD

    def tell(self) -> None:
        """Turn what has grown into deltas."""
        growth, self.growth = self.growth, Growth()
        self.deltas.extend(self.turn.deltas(growth, self.decoding))

    def hand_over(self) -> None:
        """Pass its deltas to the listener, if there is one."""
        while self.hear and self.deltas and not self.left:
            self.left = not self.hear(self.deltas.popleft())

    def draw(self, logits: np.ndarray, top: Top | None, spent: float) -> None:
        """Choose the next tokens from logits that took `spent` seconds, and make deltas that are due."""
        watch, growth = self.turn.watch, self.growth
        self.step = self.decoding.step(logits, top)
        growth.sampling += watch.lap()
        growth.totals.append(watch.total)
        if self.step.urgent or watch.last + spent >= self.due:
            self.tell()
            self.due = watch.last + self.turn.hold
        self.ended = not self.step.tokens
