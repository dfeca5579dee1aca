"""Speculation: several tokens are guessed and read in one step, and what the model would not have said is forgotten.

Each token is still drawn by the row's own sampler from the model's own logits, with the random number that belongs to
its place; a guess only saves a step where it is the token drawn. So the guesses change nothing: that is rejection
sampling of a guess that is certain of itself (https://arxiv.org/abs/2211.17192), and the same seed gives the same text,
as far as the backend's arithmetic for several tokens at once is that for one.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

import backends
from chatapp.generation.decoding.drafts import Drafter
from chatapp.generation.decoding.generate import Step, Stopwatch
from chatapp.generation.decoding.row import Row, Rows
from chatapp.generation.delta import Guesses

WIDTHS = (2, 4, 8, 16)
"""Tokens that a step may read: few sizes, since a runtime prepares for each."""
PLAIN = 3
"""Plain steps at the beginning, which tell what speculation is measured by."""
REMEASURED = 48
"""Steps after which one is plain again."""
SAMPLES = 7
WORTH = 1.05
"""How many times quicker than a plain step a token must be expected to come."""
PATIENCE = 16
"""Guesses that are left out before one is tried again, where guesses have not paid; twice as many the next time."""


def rounds_alike(placement: backends.Placement) -> bool:
    """Whether a backend rounds several tokens read at once as it rounds one, but for the last bits of float32.

    Where activations are rounded to bytes, the last bits decide which way, and the next layers do not forget it.
    """
    return placement.precision == "f32"


class Pace:
    """How many tokens are worth guessing: by what steps of each width took, and how many guesses were right."""

    def __init__(self) -> None:
        self.taken: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=SAMPLES))
        """Seconds of the last steps of each width, but for its first one."""
        self.met: set[int] = set()
        self.right, self.tested = dict[int, float](), dict[int, float]()
        """Of each kind of guess: the tokens that were right, and those that were looked at; old ones count less."""
        self.left_out, self.patience = 0, PATIENCE
        self.steps = 0

    def note(self, width: int, seconds: float) -> None:
        """A step of this width has taken so long."""
        self.steps += 1
        if width in self.met:
            self.taken[width].append(seconds)
        self.met.add(width)  # the first one prepares more than the others

    def judge(self, kind: int, right: int, tested: int) -> None:
        """Of the guesses looked at, some were right."""
        self.right[kind] = 0.9 * self.right[kind] + right
        self.tested[kind] = 0.9 * self.tested[kind] + tested
        if right:
            self.patience = PATIENCE

    @property
    def plain(self) -> float | None:
        """Seconds of a plain step; None before some were measured."""
        return median(self.taken[1]) if len(self.taken[1]) >= PLAIN - 1 else None

    def best(self, kinds: Mapping[int, float]) -> int:
        """The kind that is right most often; a kind's own share counts as the first four guesses of it."""
        for kind, share in kinds.items():
            self.right.setdefault(kind, 4 * share)
            self.tested.setdefault(kind, 4.0)
        return max(kinds, key=lambda kind: self.right[kind] / self.tested[kind])

    def choose(self, kind: int) -> int:
        """How many tokens to guess; 0 where that is not expected to pay."""
        if self.plain is None or self.steps % REMEASURED == 0:
            return 0
        chance = min(self.right[kind] / self.tested[kind], 0.99)
        tried = 2 * max([1, *(width for width in self.taken if self.taken[width])])
        rates = {1: 1 / self.plain * WORTH}
        for width in WIDTHS:
            if width <= tried:  # what a width costs is found out step by step
                expected = (1 - chance**width) / (1 - chance)
                rates[width] = expected / self.estimate(width)
        best = max(rates, key=lambda width: rates[width])
        if best > 1:
            self.left_out = 0
            return best - 1
        self.left_out += 1
        if self.left_out < self.patience:
            return 0
        self.left_out, self.patience = 0, 2 * self.patience
        return 1

    def estimate(self, width: int) -> float:
        """Seconds of a step of this width; a little more than a plain one where none was measured."""
        assert self.plain
        return median(self.taken[width]) if self.taken[width] else self.plain * (1 + 0.08 * (width - 1))


class Speculation(Rows):
    """The decoding that draws one completion and lets a drafter guess how it goes on."""

    def __init__(self, row: Row, drafter: Drafter, prompt: Sequence[int], watch: Stopwatch, pace: Pace | None = None):
        """`pace` is what the turns before have learned."""
        super().__init__([row])
        self.row, self.drafter, self.watch = row, drafter, watch
        self.text = list(prompt)
        """The tokens of prompt and reply."""
        self.pace = pace or Pace()
        self.draft: Sequence[int] = ()
        """The guesses that the step reads that is under way."""
        self.guessing = True
        self.kind = 0
        self.width, self.begun = 0, 0.0
        """The tokens that it reads, and the turn's time when it began."""
        self.drafted = self.accepted = 0
        self.emitted, self.seconds = 0, 0.0
        """The tokens that steps have given, and what these took."""

    @property
    def gain(self) -> float | None:
        """How many times quicker it was than plain steps would have been; None where nothing was guessed."""
        plain = self.pace.plain
        return self.emitted * plain / self.seconds if plain and self.drafted and self.seconds else None

    @property
    def guesses(self) -> Guesses | None:
        """How the guesses have fared; None where there was none."""
        return Guesses(self.drafted, self.accepted, self.gain) if self.drafted else None

    def give_up(self, step: Step) -> Step:
        """The step without its guesses, which are the last: rows of several turns are read a token at a time."""
        more = step.more[: len(step.more) - len(self.draft)]
        self.guessing, self.draft = False, ()
        return step._replace(more=more, last=1)

    def step(self, logits: np.ndarray, top: backends.Top | None) -> Step:
        """Draw tokens for as long as they are those that were guessed."""
        row, before, guessed, right = self.row, len(self.row.tokens), self.draft, 0
        for place in range(len(guessed) + 1):
            guess = guessed[place] if place < len(guessed) else None
            known = (top.tokens[0, place], top.logits[0, place]) if top else None
            row.sample(logits[0, place], known, guess)
            right += row.tokens[-1] == guess
            if row.finish_reason or row.tokens[-1] != guess:
                break
        drawn = len(row.tokens) - before
        self._count(drawn, right, min(drawn, len(guessed)))
        forget = len(guessed) + 1 - drawn
        row.force()
        new = row.tokens[before:]
        self.text += new
        self.counts.append(len(new))
        if row.finish_reason:
            self._going, self.draft = [], ()
            return Step([], [], True, forget=forget)
        first, *more = new[drawn - 1 :]
        self.draft = self._guess()
        self.width = 1 + len(more) + len(self.draft)
        return Step([first], [0], False, [*more, *self.draft], 1 + len(self.draft), forget)

    def _guess(self) -> Sequence[int]:
        """What may follow, as much of it as is worth reading."""
        if not self.guessing:
            return ()
        if not (kinds := self.drafter.find(self.text)):
            return ()
        self.kind = self.pace.best(kinds)
        count = min(self.pace.choose(self.kind), self.row.limit - len(self.row.tokens) - 1)
        return self.drafter.draft(self.text, self.kind, count) if count > 0 else ()

    def _count(self, drawn: int, right: int, tested: int) -> None:
        """Learn from the step that has ended."""
        now = self.watch.total
        if self.width and self.guessing:
            self.pace.note(self.width, now - self.begun)
            self.emitted, self.seconds = self.emitted + drawn, self.seconds + now - self.begun
        self.begun = now
        if self.draft:
            self.drafted, self.accepted = self.drafted + tested, self.accepted + right
            self.pace.judge(self.kind, right, tested)
