"""Completions as they grow: their tokens and text."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

import backends
from backends.rereading import PART
from chatapp.generation.decoding.candidates import Top
from chatapp.generation.decoding.constraint import Constraint, narrow, restrict
from chatapp.generation.decoding.generate import Step
from chatapp.generation.decoding.sampling import Sampler, log_probability
from chatapp.generation.decoding.stop import StopStrings
from chatapp.generation.delta import Alternative, BeamEvent, FinishReason, Token
from chatapp.generation.text.detokenizer import Detokenizer


class Drawn(NamedTuple):
    """A token that was drawn."""

    token: int
    logprob: float | None
    best: Sequence[tuple[int, float]]
    """The most likely tokens in its place, with their log-probabilities."""
    guessed: bool = False
    """Whether a draft predicted it."""


@dataclass
class Row:
    """One completion, with all its state."""

    index: int
    sampler: Sampler
    detokenizer: Detokenizer
    stops: StopStrings
    logprobs: int | None
    end: frozenset[int]
    """The tokens that end it."""
    limit: int
    """The most tokens it may have."""
    constraint: Constraint | None = None
    told: Sequence[int] = ()
    """Tokens that another engine has already written of it, which are repeated."""
    tokens: list[int] = field(default_factory=list)
    drawn: deque[Drawn] = field(default_factory=deque)
    """Tokens that are not turned into text yet."""
    untold: list[Token] = field(default_factory=list)
    """Tokens before these that are not delivered yet; their `seconds` are 0."""
    text: str = ""
    """Their text that can be shown."""
    weights: np.ndarray | None = None
    """Scratch memory for log-probabilities."""
    finish_reason: FinishReason | None = None
    score: float | None = None
    """Its score, if a beam search found it."""
    seconds: float = 0.0
    """The turn's time at the last token delivered; 0 before the first."""

    def go_on_from(self, begun: Sequence[int]) -> None:
        """Begin the reply with these tokens, which are delivered already."""
        for token in begun:
            self.detokenizer.add(token)
            self.sampler.add(token)

    def sample(self, logits: np.ndarray, top: Top | None = None, guess: int | None = None) -> None:
        """Append a token drawn from logits (vocab,); `top` are the largest, if known.

        A `guess` does not influence it; only its being right is recorded.
        """
        token = self._choose(logits, top)
        if self.logprobs is None:
            self._grow(Drawn(token, None, (), token == guess))
        else:
            self.weights = np.empty_like(logits) if self.weights is None else self.weights
            known = log_probability(logits, token, self.logprobs, top, self.weights)
            self._grow(Drawn(token, *known, token == guess))

    def force(self) -> list[int]:
        """Append tokens that must follow, if there are any, and return them; the model is not needed."""
        if self.finish_reason or self.logprobs is not None:
            return []  # log-probabilities need the model
        grown = list[int]()
        while len(self.tokens) < len(self.told) and len(grown) < PART - 1 and not self.finish_reason:
            grown.append(self._say_again())
            self._grow(Drawn(grown[-1], None, ()))
        if grown or self.constraint is None:
            return grown
        for token in self.constraint.forced(self.tokens):
            self.sampler.add(token)
            self._grow(Drawn(token, None, ()))
            grown.append(token)
            if self.finish_reason:
                break
        return grown

    def _choose(self, logits: np.ndarray, top: Top | None) -> int:
        """The next token: drawn among those that the constraint allows, unless there is only one."""
        if len(self.tokens) < len(self.told):
            return self._say_again()
        if self.constraint is None:
            return self.sampler.sample(logits, top)
        if forced := self.constraint.forced(self.tokens):
            self.sampler.add(forced[0])
            return forced[0]
        allowed = self.constraint.allowed(self.tokens)
        if allowed is None:
            return self.sampler.sample(logits, top)
        return self.sampler.sample(restrict(logits, allowed), narrow(top, allowed))

    def _say_again(self) -> int:
        """The next of the tokens already written; skips the random numbers that it took."""
        token = self.told[len(self.tokens)]
        if not (self.constraint and self.constraint.forced(self.tokens)):
            self.sampler.skip()
        self.sampler.add(token)
        return token

    def _grow(self, drawn: Drawn) -> None:
        """Append a token, and find out whether it ends the reply."""
        self.drawn.append(drawn)
        self.tokens.append(drawn.token)
        if drawn.token in self.end or (self.constraint and self.constraint.ends(self.tokens)):
            self.finish_reason = "stop"
        elif len(self.tokens) >= self.limit:
            self.finish_reason = "length"
        if self.stops.eager:  # it may end with this token's text, and then nothing more is drawn
            self.read()

    def read(self) -> None:
        """Turn drawn tokens into text; a stop string ends the row."""
        while self.drawn:
            token, logprob, best, guessed = self.drawn.popleft()
            describe = self.detokenizer.describe  # alternatives are described before the token is added
            alternatives = tuple([Alternative(other, describe(other), value) for other, value in best])
            piece = "" if token in self.end else self.detokenizer.add(token)
            last = bool(self.finish_reason and not self.drawn)
            if last:
                piece += self.detokenizer.flush()
            self.text += self.stops.add(piece)
            if self.stops.found:
                self.finish_reason = "stop"
            elif last:
                self.text += self.stops.flush()
            self.untold.append(Token(token, piece, logprob, alternatives, 0.0, guessed))

    def tell(self, totals: Sequence[float]) -> tuple[tuple[Token, ...], str, FinishReason | None]:
        """The undelivered tokens, the text that can now be shown, and the finish reason if there is one.

        `totals` is the turn's time at each of these tokens.
        """
        self.read()
        told = list[Token]()
        for total, known in zip(totals, self.untold, strict=True):
            told.append(replace(known, seconds=total - self.seconds))
            self.seconds = total
        text, self.text = self.text, ""
        self.untold.clear()
        return tuple(told), text, self.finish_reason

    def take_back(self) -> None:
        """Discard what was not delivered."""
        if count := len(self.drawn) + len(self.untold):
            del self.tokens[-count:]
            self.drawn.clear()
            self.untold.clear()


class Rows:
    """A decoding of independent rows.

    Finished rows are removed, except the last one: the session's rows are those of `rows`, in order.
    """

    def __init__(self, rows: Sequence[Row]):
        self.rows = self._going = list(rows)
        self.events: list[BeamEvent] = []
        """What happened to beams, in beam searches only."""
        self._parents = [0] * len(self.rows)  # all continue the row that read the prompt
        self.counts: list[int] = []
        """Tokens of each step that is not delivered yet."""
        self._told = 0.0
        """The turn's time after the last step delivered."""

    @property
    def cached(self) -> Sequence[int]:
        """The reply's tokens that stay in the cache."""
        return self.rows[0].tokens

    def grown(self, totals: Sequence[float]) -> Iterable[tuple[Row, Sequence[float]]]:
        """The rows with new tokens, and the turn's time at each token."""
        if not totals:
            return ()
        counts, self.counts = self.counts, []
        if counts != [1] * len(counts):
            totals = list(share_out(self._told, totals, counts))
        self._told = totals[-1]
        return [(row, totals) for row in self.rows]

    def step(self, logits: np.ndarray, top: backends.Top | None) -> Step:
        """Draw a token for each row."""
        self.rows, parents = self._going, self._parents
        for row, parent in zip(self.rows, parents, strict=True):
            row.sample(logits[parent, -1], (top.tokens[parent, -1], top.logits[parent, -1]) if top else None)
        more = self.rows[0].force() if len(self.rows) == 1 else ()
        self.counts.append(1 + len(more))
        going = [(row, parent) for row, parent in zip(self.rows, parents, strict=True) if not row.finish_reason]
        self._going, self._parents = [row for row, _ in going], list(range(len(going)))
        parents, urgent = [parent for _, parent in going], len(going) < len(self.rows)
        if more and going:
            first, *more = self.rows[0].tokens[-1 - len(more) :]
            return Step([first], parents, urgent, more)
        return Step([row.tokens[-1] for row in self._going], parents, urgent)


def share_out(before: float, totals: Sequence[float], counts: Sequence[int]) -> Iterable[float]:
    """The turn's time at each token: tokens of a step, which ended at `totals`, share its time equally."""
    for total, count in zip(totals, counts, strict=True):
        begun = before or total  # the prompt was read before the first token
        yield from (begun + (total - begun) * (place + 1) / count for place in range(count))
        before = total
