"""Time a model: loading, the first token of prompts of several lengths, decoding, memory."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backends import BackendError, Placement
from chatapp.evaluation.timing import Decode, Prefill, time_decode, time_prefill
from chatapp.generation.engine import Engine
from chatapp.generation.memory import peak_memory
from chatapp.text.printable import printable
from chatapp.text.units import bars, milliseconds, round_up, size, table
from model_store import Progress

PROMPTS = (16, 64, 256, 1024)
"""Lengths of the timed prompts, in tokens, as far as they fit the context."""
BATCHES = (1, 5)
COMMAND = (sys.executable, "-P", "-m", "chatapp", "bench")
RANGES = 8
"""Most bars in the plot of latencies."""


@dataclass(frozen=True)
class Figures:
    """The measurements of a model; durations in seconds, memory in bytes."""

    placement: Placement
    lowering_seconds: float
    """0 if the model had been lowered before."""
    first_load: float
    """The first load in this process, with imports of the runtime."""
    cold_load: float | None
    """A load from disk; None where files cannot be evicted from the system's cache."""
    warm_load: float
    """A load with the files in the system's cache."""
    prefill: tuple[Prefill, ...]
    decode: tuple[Decode, ...]
    peak_memory: int

    def loading(self) -> str:
        """The times of loading, in a line."""
        cold = f", {milliseconds(self.cold_load)} from the disk" if self.cold_load is not None else ""
        lowered = f", lowered in {milliseconds(self.lowering_seconds)}" if self.lowering_seconds else ""
        return (
            f"{self.placement}: loaded in {milliseconds(self.first_load)}{cold}, "
            f"{milliseconds(self.warm_load)} again{lowered}; {size(self.peak_memory)} peak memory"
        )

    def describe(self) -> str:
        """Tables and a plot."""
        prompts = [
            (str(one.prompt_tokens), milliseconds(one.time_to_first_token), f"{one.tokens_per_second:,.0f}")
            for one in self.prefill
        ]
        steps = [
            (str(one.batch), f"{one.tokens_per_second:,.1f}", *map(milliseconds, (one.p50, one.p95, one.p99)))
            for one in self.decode
        ]
        parts = [self.loading()]
        if self.prefill:
            parts.append(table(("PROMPT", "FIRST TOKEN", "TOKENS/S"), prompts))
        if self.decode:
            parts.append(table(("BATCH", "TOKENS/S", "P50", "P95", "P99"), steps))
            parts.append(f"Steps of a single row, by their time\n{draw_histogram(self.decode[0].latencies)}")
        return "\n\n".join(parts)

    def rows(self) -> list[tuple[str, int | str, str, float]]:
        """One row per figure: its name, prompt length or batch size, kind, and value."""
        loads = {"lowering": self.lowering_seconds, "first": self.first_load, "warm": self.warm_load}
        if self.cold_load is not None:
            loads["cold"] = self.cold_load
        rows: list[tuple[str, int | str, str, float]] = [("load", "", kind, value) for kind, value in loads.items()]
        for one in self.prefill:
            rows.append(("prefill", one.prompt_tokens, "time_to_first_token", one.time_to_first_token))
        for step in self.decode:
            kinds = ("tokens_per_second", "p50", "p95", "p99")
            rows += [("decode", step.batch, kind, getattr(step, kind)) for kind in kinds]
        return [*rows, ("memory", "", "peak", self.peak_memory)]


def read_figures(facts: dict[str, Any]) -> Figures:  # Any: parsed JSON
    """Read what `asdict` wrote."""
    prefill = tuple(Prefill(**one) for one in facts["prefill"])
    decode = tuple(Decode(**{**one, "latencies": tuple(one["latencies"])}) for one in facts["decode"])
    placement = Placement(**facts["placement"])
    return Figures(**{**facts, "placement": placement, "prefill": prefill, "decode": decode})


def measure(
    open_model: Callable[[], Engine],
    folder_of: Callable[[Placement], Path],
    tokens: int,
    on_progress: Progress | None = None,
) -> Figures:
    """Time the model that `open_model` opens, decoding `tokens` steps; 0: time its loading only.

    `folder_of` returns the lowered model's folder.
    """
    engine = open_model()
    first_load, lowering_seconds, placement = engine.load_seconds, engine.lowering_seconds, engine.placement
    del engine  # before the next load: memory must count once
    cold_load = None
    if forget(folder_of(placement)):
        cold_load = open_model().load_seconds
    engine = open_model()
    session = engine.session
    lengths = [length for length in PROMPTS if length <= session.context_length] or [session.context_length]
    parts = [*lengths, *BATCHES] if tokens else []

    prefill, decode = [], []
    for done, part in enumerate(parts):
        if on_progress:
            on_progress("timing", done / len(parts))
        if done < len(lengths):
            prefill.append(time_prefill(session, part))
        else:
            decode.append(time_decode(session, part, tokens))
    return Figures(
        placement,
        lowering_seconds,
        first_load,
        cold_load,
        engine.load_seconds,
        tuple(prefill),
        tuple(decode),
        peak_memory(),
    )


def forget(folder: Path) -> bool:
    """Evict a folder's files from the system's cache; returns whether that is possible."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def measure_each(
    model: str, placements: Sequence[tuple[str, str]], rest: Sequence[str], *, warn: Callable[[str], object]
) -> list[Figures]:
    """Measure every (backend, device) in a process of its own; calls `warn` for those that fail."""
    found = []
    for backend, device in placements:
        command = [*COMMAND, model, "--backend", backend, "--device", device, "--json"]
        done = subprocess.run([*command, *rest], stdout=subprocess.PIPE, encoding="utf-8")
        if done.returncode:  # it has reported why on standard error
            warn(f"{backend} {device} skipped")
        else:
            found.append(read_figures(json.loads(done.stdout)))
    if not found:
        raise BackendError(f"{model} could not be measured on any backend; see chatapp devices")
    return found


def format_figures(every: Sequence[Figures], form: str) -> str:
    """Format figures as `json` (one object, or a list of several), `csv`, or `text`."""
    if form == "json":
        facts = [asdict(one) for one in every]
        return json.dumps(facts[0] if len(facts) == 1 else facts, indent=2)
    if form == "csv":
        output = io.StringIO()
        writer = csv.writer(output, lineterminator="\n")
        writer.writerow(("backend", "device", "precision", "what", "at", "figure", "value"))
        for one in every:
            placement = one.placement
            writer.writerows((placement.backend, placement.device, placement.precision, *row) for row in one.rows())
        return output.getvalue().rstrip("\n")
    parts = [printable(one.describe()) for one in every]
    if len(every) > 1 and all(one.decode for one in every):
        parts.append(f"Decoding, tokens a second\n{compare_speeds(every)}")
    return "\n\n\n".join(parts)


def draw_histogram(latencies: Sequence[float]) -> str:
    """A histogram of latencies; what is beyond the 98th percentile is in the last bar."""
    ordered = sorted(latencies)
    low, high = ordered[0], ordered[int(0.98 * (len(ordered) - 1))]
    width = round_up(max((high - low) / (RANGES - 1), 1e-5))
    first, last = int(low / width), int(high / width)
    counts = [0] * (last - first + 1)
    for latency in ordered:
        counts[min(int(latency / width), last) - first] += 1
    labels = [f"from {1000 * place * width:.5g} ms" for place in range(first, last + 1)]
    return bars(labels, counts, [str(count) for count in counts])


def compare_speeds(every: Sequence[Figures]) -> str:
    """The decoding speeds with one row, as bars."""
    labels = [str(one.placement) for one in every]
    speeds = [one.decode[0].tokens_per_second for one in every]
    return bars(labels, speeds, [f"{speed:,.1f}" for speed in speeds])
