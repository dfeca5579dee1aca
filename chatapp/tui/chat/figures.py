"""The figures of a reply as it is written: speed, latencies, context and memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatapp.generation import Delta, Usage

BARS = "▁▂▃▄▅▆▇█"


@dataclass
class Figures:
    """What is known about a reply; seconds and bytes."""

    prompt_tokens: int = 0
    tokens: int = 0
    prefill: float = 0.0
    time_to_first_token: float | None = None
    latencies: list[float] = field(default_factory=list)
    """Of every token after the first of each answer."""
    spent: dict[int, float] = field(default_factory=dict)
    """What each answer that has a token took after its first one; together they are decoded at once."""
    usage: Usage | None = None
    """The engine's own summary, once the reply has ended by itself."""

    def add(self, deltas: Iterable[Delta]) -> None:
        """Take in what arrived."""
        for delta in deltas:
            timings = delta.timings
            if self.tokens == 0:
                spent = timings.prefill + timings.decode + timings.sampling + timings.detokenising
                self.time_to_first_token = (self.time_to_first_token or 0.0) + spent
            self.prefill += timings.prefill
            for token in delta.tokens:
                if delta.index in self.spent:
                    self.latencies.append(token.seconds)
                    self.spent[delta.index] += token.seconds
                else:
                    self.spent[delta.index] = 0.0
            self.tokens += len(delta.tokens)
            if delta.usage:
                self.settle(delta.usage)

    def settle(self, usage: Usage) -> None:
        """Prefer the engine's own summary to what was added up here."""
        self.usage = usage
        self.prompt_tokens = usage.prompt_tokens
        self.tokens = usage.completion_tokens
        self.prefill = usage.prefill_seconds
        self.time_to_first_token = usage.time_to_first_token

    @property
    def tokens_per_second(self) -> float | None:
        if self.usage:
            return self.usage.tokens_per_second
        spent = max(self.spent.values(), default=0.0)
        return len(self.latencies) / spent if spent else None

    @property
    def p95(self) -> float | None:
        return percentile(self.latencies, 95) if self.latencies else None

    @property
    def slow(self) -> float:
        """The latency from which a token stands out: twice the usual one."""
        return 2 * percentile(self.latencies, 50)


def percentile(values: Sequence[float], percent: float) -> float:
    """As the engine reckons it, whose module the first frame does not wait for."""
    from chatapp.generation.delta import percentile

    return percentile(values, percent)


def ceiling(seconds: float) -> float:
    """A round number at or above: a scale that reads well and changes seldom."""
    step = 1e-4
    while True:
        for factor in (1, 1.5, 2, 3, 4, 5, 6, 8):
            if seconds <= step * factor:
                return step * factor
        step *= 10


def strip(latencies: Sequence[float], top: float) -> str:
    """One block character per token, full height at `top` seconds."""
    return "".join(BARS[min(7, int(8 * seconds / top))] for seconds in latencies)
