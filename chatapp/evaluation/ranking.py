"""Which of several answers their model finds likeliest, and how fast each was written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chatapp.generation.delta import percentile

if TYPE_CHECKING:
    from chatapp.generation import Token


@dataclass
class Score:
    """The figures of one answer, kept while it is written; durations in seconds."""

    tokens: int = 0
    scored: int = 0
    """Of the tokens, those whose log-probability is known."""
    logprob: float = 0.0
    """Of these together."""
    time_to_first_token: float = 0.0
    spent: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Of every token after the first."""

    def add(self, tokens: Iterable[Token]) -> None:
        """Take in what arrived."""
        for token in tokens:
            if self.tokens:
                self.latencies.append(token.seconds)
                self.spent += token.seconds
            else:
                self.time_to_first_token = token.seconds
            self.tokens += 1
            if token.logprob is not None:
                self.scored += 1
                self.logprob += token.logprob

    @property
    def mean(self) -> float | None:
        """The mean log-probability of a token; None while none is known."""
        return self.logprob / self.scored if self.scored else None

    @property
    def tokens_per_second(self) -> float | None:
        """After the first token; None before the second."""
        return len(self.latencies) / self.spent if self.spent else None

    @property
    def p95(self) -> float | None:
        return percentile(self.latencies, 95) if self.latencies else None


def ranked(scores: Sequence[Score]) -> list[int]:
    """The answers by mean log-probability, the likeliest first; those without one last, in their order."""

    def place(index: int) -> tuple[bool, float]:
        mean = scores[index].mean
        return mean is None, -mean if mean is not None else 0.0

    return sorted(range(len(scores)), key=place)
