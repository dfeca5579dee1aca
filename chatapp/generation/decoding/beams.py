"""Beam search: find the most likely texts by extending several at once, as transformers' `generate` does.

Beam groups are those of https://arxiv.org/abs/1610.02424: each group avoids what the groups before it chose.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf

import numpy as np

from backends import Top
from chatapp.generation.decoding.candidates import largest
from chatapp.generation.decoding.constraint import Constraint, restrict
from chatapp.generation.decoding.generate import Step
from chatapp.generation.decoding.lines import normalise
from chatapp.generation.decoding.processors import History
from chatapp.generation.decoding.row import Drawn, Row
from chatapp.generation.decoding.sampling import log_probability
from chatapp.generation.delta import BeamChange, BeamEvent, FinishReason


@dataclass(eq=False, slots=True)
class Beam:
    """A partial text: its last token, and the beam that it extends."""

    id: int
    parent: "Beam | None"
    drawn: Drawn | None
    """None at the root, the prompt."""
    score: float
    """The sum of its tokens' log-probabilities, after processors and filters."""
    place: int
    """The session's row that it continues."""
    constraint: Constraint | None
    """The parent's constraint until the beam is kept, then its own."""
    ended: FinishReason | None = None
    rank: float = -inf
    """The score of a finished beam, with the length penalty."""

    @property
    def path(self) -> list[Drawn]:
        """Its tokens, first to last."""
        found, beam = list[Drawn](), self
        while beam.parent and beam.drawn:
            found.append(beam.drawn)
            beam = beam.parent
        return found[::-1]


@dataclass
class Group:
    """Beams that compete with each other."""

    running: list[Beam]
    finished: list[Beam] = field(default_factory=list)
    """The best finished beams, best first."""
    going: bool = True


class Beams:
    """A decoding that extends the best beams; at the end its rows are the best texts."""

    def __init__(self, rows: list[Row]):
        """`rows` are empty, as many as texts are wanted, and hold the options."""
        self.wanted, self.rows = rows, list[Row]()
        row = rows[0]
        self.row, self.options, self.sampler = row, row.sampler.options, row.sampler
        self.width = self.options.num_beams // self.options.num_beam_groups
        self.groups = [
            Group([Beam(0, None, None, 0.0, 0, row.constraint)]) for _ in range(self.options.num_beam_groups)
        ]
        self.events: list[BeamEvent] = []
        """Changes in the tree of beams that are not delivered yet."""
        self.made, self.length = 0, 0
        self.totals: list[float] = []

    @property
    def cached(self) -> Sequence[int]:
        """The reply's tokens that stay in the cache: none, as there are several beams."""
        return ()

    def grown(self, totals: Sequence[float]) -> Iterable[tuple[Row, Sequence[float]]]:
        """The rows with new tokens and the time of each: none before the search has ended."""
        self.totals += totals
        return [(row, self.totals[: len(row.tokens)]) for row in self.rows]

    def step(self, logits: np.ndarray, top: Top | None) -> Step:
        """Extend every group, one after another."""
        self.length += 1
        taken = np.zeros(logits.shape[-1], np.float32)
        for group in self.groups:
            if group.going:
                self._go_on(group, logits, taken)
        running = [beam for group in self.groups if group.going for beam in group.running]
        if not running:
            self._fill_rows()
        tokens, parents = [beam.drawn.token for beam in running if beam.drawn], [beam.place for beam in running]
        for place, beam in enumerate(running):
            beam.place = place
        return Step(tokens, parents, True)

    def _go_on(self, group: Group, logits: np.ndarray, taken: np.ndarray) -> None:
        """Extend the beams of a group, and keep the best running and finished ones."""
        options, before = self.options, group.running
        found = self._extend(group, logits, taken)
        for beam in found:
            beam.ended = self._end(beam)
        group.running = [beam for beam in found if not beam.ended][: self.width]
        full = len(group.finished) == self.width
        if not (full and options.early_stopping is True):
            for beam in found[: self.width]:
                if beam.ended:
                    beam.rank = beam.score / self.length**options.length_penalty
                    group.finished.append(beam)
        group.finished = sorted(group.finished, key=lambda beam: -beam.rank)[: self.width]
        kept = [*group.running, *(beam for beam in found if beam in group.finished)]
        self._tell_all(before, kept)
        for beam in group.running:
            taken[beam.drawn.token if beam.drawn else 0] += 1
        group.going = bool(group.running) and self._may_improve(group)
        if not group.going:
            self._tell("pruned", group.running)

    def _extend(self, group: Group, logits: np.ndarray, taken: np.ndarray) -> list[Beam]:
        """The best extensions of a group's beams, finished or not, best first."""
        count = max(2, 1 + len(self.row.end)) * self.width
        ways: list[tuple[float, float, Beam, int]] = []
        for beam in group.running:
            scores = self._score(beam, logits[beam.place, -1])
            if self.options.diversity_penalty:
                scores -= np.float32(self.options.diversity_penalty) * taken
            scores += np.float32(beam.score)
            luck = self._perturb(scores)
            ways += [(float(luck[token]), float(scores[token]), beam, token) for token in largest(luck, count).tolist()]
        ways.sort(key=lambda way: -way[0])
        return [self._make(beam, token, score, logits) for _, score, beam, token in ways[:count]]

    def _score(self, beam: Beam, logits: np.ndarray) -> np.ndarray:
        """The log-probabilities (vocab,) of a beam's next token, after processors and filters."""
        tokens = [drawn.token for drawn in beam.path]
        beam.constraint = beam.constraint.copy() if beam.constraint else None
        scores = normalise(restrict(logits, beam.constraint.allowed(tokens) if beam.constraint else None))
        sampler = self.sampler
        if sampler.processors:
            history = History(sampler.history.tokens[: sampler.history.begun])
            for token in (*sampler.history.reply, *tokens):
                history.add(token)
            for process in sampler.processors:
                process(scores, history)
        if not self.options.beam_sampling:
            return scores
        candidates = sampler.choose(scores)
        warm = np.asarray(candidates.logits, np.float32) / np.float32(candidates.temperature)
        if candidates.ids is None:
            return warm
        left = np.full_like(scores, -inf)
        left[candidates.ids[: warm.size]] = warm
        return left

    def _perturb(self, scores: np.ndarray) -> np.ndarray:
        """Add Gumbel noise when sampling, so that the largest scores are a sample without replacement."""
        if not self.options.beam_sampling:
            return scores
        chances = np.array([self.sampler.random.random() for _ in range(int(np.isfinite(scores).sum()))])
        luck = scores.copy()
        luck[np.isfinite(scores)] -= np.log(-np.log(np.maximum(chances, 1e-300)))
        return luck

    def _make(self, beam: Beam, token: int, score: float, logits: np.ndarray) -> Beam:
        self.made += 1
        if self.row.logprobs is None:
            return Beam(self.made, beam, Drawn(token, None, ()), score, beam.place, beam.constraint)
        known = log_probability(logits[beam.place, -1], token, self.row.logprobs)
        return Beam(self.made, beam, Drawn(token, *known), score, beam.place, beam.constraint)

    def _end(self, beam: Beam) -> FinishReason | None:
        """Why a beam has ended; None if it has not."""
        if beam.drawn and beam.drawn.token in self.row.end:
            return "stop"
        # The constraint is still the parent's, which other beams extend too.
        if beam.constraint and beam.constraint.copy().ends([drawn.token for drawn in beam.path]):
            return "stop"
        if self.row.stops.eager and self._stops(beam):
            return "stop"
        return "length" if self.length >= self.row.limit else None

    def _stops(self, beam: Beam) -> bool:
        """Whether a beam's text has reached a stop string."""
        detokenizer = self.row.detokenizer.copy()
        stops = deepcopy(self.row.stops)
        for drawn in beam.path:
            stops.add(detokenizer.add(drawn.token))
        return stops.found

    def _may_improve(self, group: Group) -> bool:
        """Whether a running beam may still beat the worst finished one."""
        options = self.options
        if len(group.finished) < self.width:
            return True
        if options.early_stopping is True:
            return False
        far = options.early_stopping == "never" and options.length_penalty > 0
        length = float(self.row.limit if far else self.length)
        return bool(group.running[0].score / length**options.length_penalty > group.finished[-1].rank)

    def _tell_all(self, before: Sequence[Beam], kept: Sequence[Beam]) -> None:
        """Record what has become of the beams."""
        self._tell("extended", [beam for beam in kept if not beam.ended])
        self._tell("finished", [beam for beam in kept if beam.ended])
        alive = {id(beam.parent) for beam in kept}
        self._tell("pruned", [beam for beam in before if beam.parent and id(beam) not in alive])

    def _tell(self, change: BeamChange, beams: Sequence[Beam]) -> None:
        for beam in beams:
            if beam.parent and beam.drawn:
                token, score = beam.drawn.token, beam.rank if beam.ended else beam.score
                text = "" if token in self.row.end else self.row.detokenizer.describe(token)
                self.events.append(BeamEvent(change, beam.id, beam.parent.id, token, text, score))

    def _fill_rows(self) -> None:
        """Make the best texts the rows; there may be fewer than wanted."""
        finished = (beam for group in self.groups for beam in group.finished)
        best = sorted(finished, key=lambda beam: (-beam.rank, beam.id))[: len(self.wanted)]
        del self.wanted[len(best) :]
        for row, beam in zip(self.wanted, best, strict=True):
            row.tokens = [drawn.token for drawn in beam.path]
            row.drawn.extend(beam.path)
            row.finish_reason, row.score = beam.ended, beam.rank
        self.rows = self.wanted
