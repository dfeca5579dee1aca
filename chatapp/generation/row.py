"""One of n completions as it grows: its tokens, and the text they make."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from chatapp.generation.delta import Alternative, FinishReason
from chatapp.generation.detokenizer import Detokenizer
from chatapp.generation.sampling import Sampler, Top, log_probability
from chatapp.generation.stop import StopStrings


@dataclass
class Row:
    """A completion with all that it alone remembers."""

    index: int
    sampler: Sampler
    detokenizer: Detokenizer
    stops: StopStrings
    logprobs: int | None
    end: frozenset[int]
    """Tokens that end it."""
    limit: int
    """How many tokens it may have."""
    first: list[int] = field(default_factory=list)
    """What the first token is chosen from, if not from all."""
    tokens: list[int] = field(default_factory=list)
    logprob: float | None = None
    """Of the last token."""
    best: list[tuple[int, float]] = field(default_factory=list)
    """The likeliest tokens in the last one's place, with their log-probabilities."""
    weights: np.ndarray | None = None
    """Where log-probabilities are reckoned."""
    finish_reason: FinishReason | None = None
    seconds: float = 0.0
    """The turn's time when the last token was told."""

    def go_on_from(self, begun: Sequence[int]) -> None:
        """The reply has begun with these tokens, which are told already."""
        for token in begun:
            self.detokenizer.add(token)
            if self.sampler.penalised:
                self.sampler.seen.add(token)

    def sample(self, logits: np.ndarray, top: Top | None = None) -> None:
        """Grow by one token, from logits (vocab,); `top` are the largest of them, if they are known."""
        if self.first and not self.tokens:
            every, logits, top = logits, np.full_like(logits, -np.inf), None
            logits[self.first] = every[self.first]
        token = self.sampler.sample(logits, top)
        if self.logprobs is not None:
            self.weights = np.empty_like(logits) if self.weights is None else self.weights
            self.logprob, self.best = log_probability(logits, token, self.logprobs, top, self.weights)
        self.tokens.append(token)
        if token in self.end:
            self.finish_reason = "stop"
        elif len(self.tokens) >= self.limit:
            self.finish_reason = "length"

    def alternatives(self) -> tuple[Alternative, ...]:
        """What might have stood in the last token's place; to be asked before `read`."""
        return tuple(Alternative(token, self.detokenizer.describe(token), logprob) for token, logprob in self.best)

    def read(self) -> tuple[str, str]:
        """What the last token adds to the text, and what can be shown; a stop string finishes the row."""
        piece = "" if self.tokens[-1] in self.end else self.detokenizer.add(self.tokens[-1])
        if self.finish_reason:
            piece += self.detokenizer.flush()
        shown = self.stops.add(piece)
        if self.stops.found:
            self.finish_reason = "stop"
        elif self.finish_reason:
            shown += self.stops.flush()
        return piece, shown
