"""Time a model: loading, the first token of prompts of several lengths, decoding, memory."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from backends import Placement, Session
from chatapp.generation import Engine
from chatapp.generation.delta import percentile
from chatapp.generation.memory import peak_memory
from chatapp.units import milliseconds, size, table

PROMPTS = (16, 64, 256, 1024)
"""Lengths of the prompts, in tokens, as far as the context holds them."""
BATCHES = (1, 5)
REPEATS = 3
"""Of each prompt, of which the fastest counts: what disturbs only ever slows."""
CONTEXT = 64
"""Tokens that are cached when decoding is timed."""


@dataclass(frozen=True)
class Prefill:
    """Reading a prompt, up to the logits of its first answer."""

    prompt_tokens: int
    time_to_first_token: float
    tokens_per_second: float


@dataclass(frozen=True)
class Decode:
    """Decoding a token for each row of a batch, in seconds a step."""

    batch: int
    tokens_per_second: float
    p50: float
    p95: float
    p99: float


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


def time_prefill(session: Session, length: int) -> Prefill:
    """Read a random prompt a few times."""
    seconds = []
    for seed in range(REPEATS + 1):  # the first one warms up
        prompt = random_tokens(session, 1, length, seed)
        session.rewind(0)
        start = time.perf_counter()
        session.forward(prompt)
        seconds.append(time.perf_counter() - start)
    best = min(seconds[1:])
    return Prefill(length, best, length / best)


def time_decode(session: Session, batch: int, steps: int) -> Decode:
    """Continue a random prompt in `batch` rows, one token a step."""
    context = min(CONTEXT, session.context_length // 2)
    steps = min(steps, session.context_length - context - 1)
    session.rewind(0)
    session.forward(random_tokens(session, 1, context, 0))
    session.reorder([0] * batch)
    tokens = random_tokens(session, batch, steps + 1, 1)
    latencies = []
    for step in range(steps + 1):  # the first one warms up
        start = time.perf_counter()
        session.forward(tokens[:, step : step + 1])
        latencies.append(time.perf_counter() - start)
    timed = latencies[1:]
    p50, p95, p99 = (percentile(timed, percent) for percent in (50, 95, 99))
    return Decode(batch, batch * len(timed) / sum(timed), p50, p95, p99)


def random_tokens(session: Session, rows: int, length: int, seed: int) -> np.ndarray:
    """Random token ids (rows, length) int64: what they spell makes no difference to the time."""
    source = random.Random(seed)
    tokens = [source.randrange(session.vocab_size) for _ in range(rows * length)]
    return np.array(tokens, np.int64).reshape(rows, length)
