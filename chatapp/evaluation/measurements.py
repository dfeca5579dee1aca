"""Measurements of an answer: its figures, its tokens, and files of them for other programs."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import Any, Literal

from chatapp.generation.delta import Alternative, Token, Usage, percentile
from chatapp.generation.reply import measure_speed
from chatapp.text.errors import InputError
from chatapp.text.files import find_free, write_whole

Form = Literal["csv", "json"]
UNLIKELY = 0.5
"""Below this probability something else was more likely."""
UNLIKELY_LOGPROB = math.log(UNLIKELY)
LARGEST = 700.0
"""The largest exponent whose exponential a float can hold."""
BEYOND = 1e20
"""Larger than any value measured or counted here, seeds included."""


@dataclass(frozen=True, slots=True)
class Step:
    """One token of an answer; None for what was not measured or not kept."""

    number: int
    """Its number, from 1."""
    token: Token | None
    seconds: float | None
    """Seconds since the previous token; for the first one, since the question."""
    elapsed: float | None
    """Seconds since the question."""

    @property
    def logprob(self) -> float | None:
        return self.token.logprob if self.token else None


@dataclass(frozen=True)
class Answer:
    """The measurements of one answer, live or stored; None for what is unknown."""

    steps: tuple[Step, ...] = ()
    latencies: tuple[float, ...] = ()
    """Seconds for each decoded token: all but the first, which comes from prefill."""
    model: str = ""
    begun: int = 0
    """Tokens that it began with, which took no time."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    """The tokens of all answers to the question together."""
    seed: int | None = None
    time_to_first_token: float | None = None
    prefill_seconds: float | None = None
    load_seconds: float | None = None
    lowering_seconds: float | None = None
    peak_memory: int | None = None
    backend: str | None = None
    device: str | None = None
    precision: str | None = None

    @classmethod
    def of(
        cls,
        usage: Usage | Mapping[str, Any] | None,  # Any: as stored
        tokens: Sequence[Token] = (),
        latencies: Sequence[float] = (),
        *,
        model: str = "",
    ) -> Answer:
        """From a usage, of the engine or the history, and the tokens and latencies there are.

        The tokens' own latencies take precedence, since a usage has those of all answers to a question. Tokens for
        which nothing was decoded are from the answer that this one continues.
        """
        known = usage.as_dict() if isinstance(usage, Usage) else dict(usage or {})
        latencies = tuple(latencies) or _checked_latencies(known.get("latencies"))
        made_here = ("steps", "latencies", "model", "begun")
        facts: dict[str, Any] = {  # Any: the fields' own types
            one.name: _checked(one.name, known.get(one.name)) for one in fields(cls) if one.name not in made_here
        }
        completed = facts["completion_tokens"]
        if tokens:
            decoded = len(latencies) + 1 if latencies else completed or len(tokens)
            begun = max(0, len(tokens) - decoded)
            own = tuple(token.seconds for token in tokens[begun + 1 :])
            return cls(_of_tokens(tokens, begun), own, model, begun, **facts)
        first = facts["time_to_first_token"] if completed in (None, len(latencies) + 1) else None
        return cls(_of_latencies(latencies, first), latencies, model, **facts)

    @property
    def tokens_per_second(self) -> float | None:
        """After the first token."""
        return measure_speed(self.latencies)

    @property
    def prefill_rate(self) -> float | None:
        """Tokens per second of reading the prompt, its cached part aside; None if all was cached."""
        read = (self.prompt_tokens or 0) - (self.cached_tokens or 0)
        return read / self.prefill_seconds if read and self.prefill_seconds else None

    def percentile(self, percent: float) -> float | None:
        """A percentile of the latencies."""
        return percentile(self.latencies, percent) if self.latencies else None

    def figures(self) -> dict[str, int | float | str | None]:
        """Everything but the tokens, under the engine's names and in its units."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("steps", "latencies")}
        return named | {
            "tokens_per_second": self.tokens_per_second,
            "prefill_tokens_per_second": self.prefill_rate,
            "p50": self.percentile(50),
            "p95": self.percentile(95),
            "p99": self.percentile(99),
            "first_token": self.latencies[0] if self.latencies else None,
            "last_token": self.latencies[-1] if self.latencies else None,
        }


def _checked(name: str, value: object) -> object:
    """A checked field of a usage, which may be from a foreign file; None if it has the wrong type."""
    if name in ("backend", "device", "precision"):
        return value if isinstance(value, str) else None
    return value if _is_measure(value) else None


def _checked_latencies(value: object) -> tuple[float, ...]:
    """The latencies of a usage; none if they have the wrong type."""
    return tuple(value) if isinstance(value, list | tuple) and all(map(_is_measure, value)) else ()


def _is_measure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < BEYOND


def _of_tokens(tokens: Sequence[Token], begun: int) -> tuple[Step, ...]:
    """Every token with its latency; those it began with have none."""
    times = [token.seconds for token in tokens[begun:]]
    known = chain(repeat((None, None), begun), zip(times, accumulate(times), strict=True))
    return tuple(Step(number, token, *time) for number, (token, time) in enumerate(zip(tokens, known, strict=True), 1))


def _of_latencies(latencies: Sequence[float], first: float | None) -> tuple[Step, ...]:
    """Steps with latencies only; without the first token's, no absolute times are known."""
    if not latencies and first is None:
        return ()
    elapsed = repeat(None) if first is None else accumulate((first, *latencies))
    times = zip((first, *latencies), elapsed, strict=False)
    return tuple(Step(number, None, *time) for number, time in enumerate(times, 1))


# Probabilities


@dataclass(frozen=True)
class Certainty:
    """How certain a model was of its text."""

    tokens: int
    """Tokens with a probability."""
    mean_logprob: float
    perplexity: float
    unlikely: float
    """The share of tokens below 50 %."""


def find_probability(logprob: float) -> float:
    """The probability of a natural logarithm, at most 1 despite rounding."""
    return math.exp(min(0.0, logprob))


def measure_certainty(tokens: Sequence[Token]) -> Certainty | None:
    """The certainty of some tokens; None if there are no probabilities."""
    known = [token.logprob for token in tokens if token.logprob is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    unlikely = sum(logprob < UNLIKELY_LOGPROB for logprob in known) / len(known)
    return Certainty(len(known), mean, math.exp(min(LARGEST, -mean)), unlikely)


# Files


def escape(text: str) -> str:
    """Quote a text like JSON, with whatever is invisible spelled out.

    So no terminal obeys it, and no spreadsheet takes it for a formula.
    """
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in quoted)


def as_csv(answer: Answer) -> str:
    """CSV with a line for each token; empty cells for what was not measured."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(("token", "id", "text", "milliseconds", "elapsed_milliseconds", "logprob", "probability"))
    for step in answer.steps:
        token, logprob = step.token, _finite(step.logprob)
        table.writerow((
            step.number,
            token.id if token else "",
            escape(token.text) if token else "",
            *("" if seconds is None else f"{seconds * 1000:.4f}" for seconds in (step.seconds, step.elapsed)),
            "" if logprob is None else f"{logprob:.6f}",
            "" if step.logprob is None else f"{find_probability(step.logprob):.6f}",
        ))  # fmt: skip
    return out.getvalue()


def as_json(answer: Answer) -> str:
    """JSON with everything, including alternatives; times in seconds, control characters escaped."""
    tokens = [_token(step) for step in answer.steps]
    whole = answer.figures() | {"latencies": answer.latencies, "tokens": tokens}
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def _token(step: Step) -> dict[str, object]:
    """A token, ready for JSON."""
    told: dict[str, object] = {"number": step.number, "seconds": step.seconds, "elapsed": step.elapsed}
    if token := step.token:
        told |= _choice(token) | {"alternatives": [_choice(other) for other in token.alternatives]}
    return told


def _choice(one: Token | Alternative) -> dict[str, object]:
    return {"id": one.id, "text": one.text, "logprob": None if one.logprob is None else _finite(one.logprob)}


def _finite(logprob: float | None) -> float | None:
    """None for minus infinity, which JSON lacks."""
    return logprob if logprob is not None and math.isfinite(logprob) else None


def propose_path(folder: Path, stem: str, form: Form) -> Path:
    """The path of a new file, with characters that every system allows."""
    safe = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in stem).strip(".-")[:80]
    return find_free(folder, safe or "answer", form)


def save(answer: Answer, path: Path) -> None:
    """Write a new file in the format of its ending, whole or not at all; existing files are never touched."""
    forms = {".csv": as_csv, ".json": as_json}
    if not (form := forms.get(path.suffix.lower())):
        raise InputError(f"{path} must end in .csv or .json")
    if os.path.lexists(path):  # unlike `path.exists`, this raises nothing
        raise InputError(f"{path} already exists; choose another name")
    try:
        write_whole(path, form(answer))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
