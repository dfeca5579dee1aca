"""Time a session: reading prompts, and decoding token by token."""

import math
import time
from dataclasses import dataclass

import numpy as np

from backends import Session
from chatapp.generation.decoding.generate import split_prompt
from chatapp.generation.delta import percentile

REPEATS = 3
"""How often each prompt is read; the fastest time counts, as disturbances only slow it down."""
ENOUGH = 8.0
"""Most seconds for a prompt, or for decoding, when a model is tried out."""
CONTEXT = 64
"""Tokens in the cache when decoding is timed."""


@dataclass(frozen=True)
class Prefill:
    """Timing of a prompt, up to the logits of its next token."""

    prompt_tokens: int
    time_to_first_token: float
    tokens_per_second: float
    reads: int = 0
    """How often it was read."""


@dataclass(frozen=True)
class Decode:
    """Timing of decode steps of a batch, in seconds per step."""

    batch: int
    tokens_per_second: float
    p50: float
    p95: float
    p99: float
    latencies: tuple[float, ...] = ()
    """Seconds of each step."""


def time_prefill(session: Session, length: int, *, enough: float = math.inf) -> Prefill:
    """Time a random prompt; no reading begins after `enough` seconds."""
    seconds = []
    for seed in range(REPEATS + 1):  # the first one warms up
        prompt = random_tokens(session, 1, length, seed)[0].tolist()
        session.rewind(0)
        start = time.perf_counter()
        for part in split_prompt(session, prompt):
            session.forward(part)
        seconds.append(time.perf_counter() - start)
        if sum(seconds) > enough:
            break
    best = min(seconds[1:] or seconds)
    return Prefill(length, best, length / best, len(seconds))


def time_decode(session: Session, batch: int, steps: int, *, enough: float = math.inf) -> Decode:
    """Time decode steps of `batch` rows after a random prompt; none begins after `enough` seconds."""
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
        if sum(latencies) > enough:
            break
    timed = latencies[1:] or latencies
    p50, p95, p99 = (percentile(timed, percent) for percent in (50, 95, 99))
    return Decode(batch, batch * len(timed) / sum(timed), p50, p95, p99, tuple(timed))


def random_tokens(session: Session, rows: int, length: int, seed: int) -> np.ndarray:
    """Random token ids (rows, length) int64; the time does not depend on the text."""
    return np.random.default_rng(seed).integers(0, session.vocab_size, (rows, length))
