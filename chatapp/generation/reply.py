"""A reply, gathered from deltas: its text, tokens and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chatapp.generation.delta import Delta, FinishReason, Token, Usage, percentile


@dataclass(slots=True)
class Reply:
    """One of n completions, gathered from deltas; durations in seconds."""

    text: str = ""
    """The answer, without the thinking."""
    thinking: str = ""
    """The thinking, with its marks."""
    tokens: list[Token] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    """Seconds for each decoded token: all but the first, which comes from prefill."""
    begun: int = 0
    """Tokens that it began with, not generated."""
    time_to_first_token: float | None = None
    thinking_tokens: int = 0
    thinking_seconds: float = 0.0
    finish_reason: FinishReason = "cancelled"
    """"cancelled" until it ends by itself."""
    score: float | None = None
    """If a beam search found it."""
    valid: bool | None = None
    """Whether a constrained answer is valid; None for others, and before the end."""
    usage: Usage | None = None
    """The engine's summary of the turn, in the reply that ends last."""
    scored: int = 0
    """Tokens with a known log-probability."""
    logprob: float = 0.0
    """Their sum."""

    def add(self, delta: Delta) -> None:
        """Take in one delta."""
        thinks = delta.channel == "thinking"
        if thinks:
            self.thinking += delta.text
        else:
            self.text += delta.text
        if delta.tokens:
            self.add_tokens(delta.tokens)
            if thinks:
                self.thinking_tokens += len(delta.tokens)
                self.thinking_seconds += sum([token.seconds for token in delta.tokens])
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.usage = delta.usage or self.usage
        self.valid = self.valid if delta.valid is None else delta.valid
        self.score = self.score if delta.score is None else delta.score

    def add_tokens(self, tokens: Sequence[Token]) -> None:
        """Take in tokens' latencies and log-probabilities."""
        for token in tokens:
            if self.latencies or self.time_to_first_token is not None:
                self.latencies.append(token.seconds)
            else:
                self.time_to_first_token = token.seconds
            if token.logprob is not None:
                self.scored += 1
                self.logprob += token.logprob
        self.tokens += tokens

    @property
    def is_heard(self) -> bool:
        """Whether the model has said anything."""
        return len(self.tokens) > self.begun

    @property
    def mean_logprob(self) -> float | None:
        """The mean log-probability of a token; None if none is known."""
        return self.logprob / self.scored if self.scored else None

    @property
    def tokens_per_second(self) -> float | None:
        """After the first token; None before the second."""
        return measure_speed(self.latencies)

    def percentile(self, percent: float) -> float | None:
        """A percentile of the latencies; None before the second token."""
        return percentile(self.latencies, percent) if self.latencies else None


def measure_speed(latencies: Sequence[float]) -> float | None:
    """Tokens per second, from one reply's latencies; None if there are none."""
    spent = sum(latencies)
    return len(latencies) / spent if spent else None


def rank(replies: Sequence[Reply]) -> list[int]:
    """The replies' indices by mean log-probability, best first; those without one last, in order."""

    def place(index: int) -> tuple[bool, float]:
        mean = replies[index].mean_logprob
        return mean is None, -mean if mean is not None else 0.0

    return sorted(range(len(replies)), key=place)
