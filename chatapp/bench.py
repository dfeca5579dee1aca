"""Time a model: loading, the first token of prompts of several lengths, decoding, memory."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from backends import Placement
from chatapp.generation import Engine
from chatapp.generation.memory import peak_memory
from chatapp.timing import Decode, Prefill, time_decode, time_prefill
from chatapp.units import milliseconds, size, table

PROMPTS = (16, 64, 256, 1024)
"""Lengths of the prompts, in tokens, as far as the context holds them."""
BATCHES = (1, 5)


@dataclass(frozen=True)
class Figures:
    """What was measured; durations in seconds, memory in bytes."""

    placement: Placement
    load_seconds: float
    """Of the first load in this process, imports of the runtime included."""
    reload_seconds: float
    """Of a second one, when the files are in memory."""
    lowering_seconds: float
    """0 when the model had been lowered before."""
    prefill: tuple[Prefill, ...]
    decode: tuple[Decode, ...]
    peak_memory: int

    def as_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), indent=2)

    def describe(self) -> str:
        """Tables for people."""
        lowered = f", lowered in {milliseconds(self.lowering_seconds)}" if self.lowering_seconds else ""
        prompts = [
            (str(one.prompt_tokens), milliseconds(one.time_to_first_token), f"{one.tokens_per_second:,.0f}")
            for one in self.prefill
        ]
        steps = [
            (str(one.batch), f"{one.tokens_per_second:,.1f}", *map(milliseconds, (one.p50, one.p95, one.p99)))
            for one in self.decode
        ]
        return "\n\n".join(
            (
                f"{self.placement.backend} {self.placement.device} {self.placement.precision}; "
                f"loaded in {milliseconds(self.load_seconds)}, again in {milliseconds(self.reload_seconds)}{lowered}; "
                f"{size(self.peak_memory)} memory at most",
                table(("PROMPT", "FIRST TOKEN", "TOKENS/S"), prompts),
                table(("BATCH", "TOKENS/S", "P50", "P95", "P99"), steps),
            )
        )


def measure(open_model: Callable[[], Engine], tokens: int) -> Figures:
    """Time the model that `open_model` opens, decoding `tokens` steps."""
    first = open_model()
    load_seconds, lowering_seconds = first.load_seconds, first.lowering_seconds
    del first  # two copies would count twice as memory
    engine = open_model()
    session = engine.session
    prompts = [length for length in PROMPTS if length <= session.context_length] or [session.context_length]
    return Figures(
        engine.placement,
        load_seconds,
        engine.load_seconds,
        lowering_seconds,
        tuple(time_prefill(session, length) for length in prompts),
        tuple(time_decode(session, batch, tokens) for batch in BATCHES),
        peak_memory(),
    )
