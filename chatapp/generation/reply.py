"""A reply while it is written, and after: the text, tokens and figures that its deltas brought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chatapp.generation.delta import Delta, FinishReason, Token, Usage, percentile


@dataclass(slots=True)
class Reply:
    """One of n completions, gathered delta by delta; durations in seconds."""

    text: str = ""
    """The answer, without what the model thought before it."""
    thinking: str = ""
    """What the model thought, with its marks."""
    tokens: list[Token] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    """Of every token that was decoded: all but the first, which prefill gives."""
    begun: int = 0
    """Tokens that it was given to begin with."""
    time_to_first_token: float | None = None
    thinking_tokens: int = 0
    thinking_seconds: float = 0.0
    finish_reason: FinishReason = "cancelled"
    """Cancelled until it ends by itself."""
    score: float | None = None
    """Where a beam search has found it."""
    valid: bool | None = None
    """Whether it is what it had to be; None where all may be, and before it has ended."""
    usage: Usage | None = None
    """The engine's summary of the turn, in the reply that ended last."""
    scored: int = 0
    """Tokens whose log-probability is known."""
    logprob: float = 0.0
    """Of these together."""

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
        """Take in what tokens cost, and how likely they were."""
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
        """Whether the model said anything of it."""
        return len(self.tokens) > self.begun

    @property
    def mean_logprob(self) -> float | None:
        """The mean log-probability of a token; None while none is known."""
        return self.logprob / self.scored if self.scored else None

    @property
    def tokens_per_second(self) -> float | None:
        """After the first token; None before the second."""
        return measure_speed(self.latencies)

    def percentile(self, percent: float) -> float | None:
        """Of the latencies; None before the second token."""
        return percentile(self.latencies, percent) if self.latencies else None


def measure_speed(latencies: Sequence[float]) -> float | None:
    """Tokens per second, of one reply's latencies; None where there are none."""
    spent = sum(latencies)
    return len(latencies) / spent if spent else None


def rank(replies: Sequence[Reply]) -> list[int]:
    """The replies by mean log-probability, the likeliest first; those without one last, in their order."""

    def place(index: int) -> tuple[bool, float]:
        mean = replies[index].mean_logprob
        return mean is None, -mean if mean is not None else 0.0

    return sorted(range(len(replies)), key=place)
