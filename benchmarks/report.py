"""What a comparison found, and how it reads as Markdown."""

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from backends.processor import processor

RATIO_NOTE = "Ratios and losses are medians of pairs of samples taken within seconds of each other (min-max)."


@dataclass(frozen=True)
class Entry:
    """One row of the comparison."""

    model: str
    engine: str
    precision: str

    @property
    def label(self) -> str:
        return f"{self.model} {self.engine} {self.precision}"


@dataclass
class Samples:
    """Everything measured of an entry, in order."""

    entry: Entry
    version: str = ""
    disk: float = 0.0
    """Megabytes."""
    peak_memory: float = 0.0
    """Megabytes, after one row has been decoded."""
    bandwidth: list[float] = field(default_factory=list)
    """GB/s read from as many megabytes as there are on disk, once a round."""
    load: list[float] = field(default_factory=list)
    """Seconds from the start of the process to the first token of an 8-token prompt."""
    values: dict[str, list[float]] = field(default_factory=dict)
    """Samples of each measurement: `first_token` in seconds, `decode` and `decode_5` in tokens per second."""


@dataclass
class Target:
    """A figure that chatapp has to reach, and the samples of it."""

    name: str
    values: list[float]
    goal: float
    at_least: bool = False
    """Whether more is better."""

    @property
    def limit(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.goal:g}"

    @property
    def verdict(self) -> str:
        median = statistics.median(self.values)
        return "pass" if (median >= self.goal if self.at_least else median <= self.goal) else "MISS"


@dataclass
class Report:
    """A whole comparison."""

    models: Sequence[str]
    bandwidth_by: str
    """What measured the bandwidth: C or NumPy."""
    machine: str = f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    bandwidth: list[float] = field(default_factory=list)
    """GB/s from a gigabyte, before each model of each round."""
    others: list[float | None] = field(default_factory=list)
    """Cores used by other processes at the same moments."""
    samples: list[Samples] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Entries that could not be timed."""
    start_seconds: dict[str, list[float]] = field(default_factory=dict)
    """From the start of `chatapp run` to the first character of its answer, the first start left out, by backend."""
    start_memory: dict[str, list[float]] = field(default_factory=dict)
    """Megabytes at most, of the same runs."""
    crowded: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Tokens per second of an entry alone, and beside a busy neighbour."""
    targets: list[Target] = field(default_factory=list)


def markdown(report: Report) -> str:
    """The report as Markdown: targets, then a table for each model, then the busy neighbour."""
    versions = sorted({sample.version for sample in report.samples})
    others = [cores for cores in report.others if cores is not None]
    lines = [
        f"{report.machine}. {'; '.join(versions)}.",
        f"Memory bandwidth from 1 GB, two threads ({report.bandwidth_by}): {spread(report.bandwidth)} GB/s. "
        f"Cores used by other processes when a model's turn began: {spread(others, 1) if others else 'unknown'}.",
        "",
    ]
    if report.targets:
        rows = [[target.name, spread(target.values, 2), target.limit, target.verdict] for target in report.targets]
        lines += table(["target", "median (min-max)", "goal", ""], rows)
        lines += [RATIO_NOTE, ""]
    for model in report.models:
        lines += model_table(model, [sample for sample in report.samples if sample.entry.model == model])
    for label, speeds in report.crowded.items():
        kinds = "; ".join(f"{kind} {spread(values)}" for kind, values in speeds.items())
        lines.append(f"- {label}, tokens/s: {kinds}")
    if report.missing:
        lines += ["", f"Not measured, for want of an export or because it failed: {', '.join(report.missing)}."]
    return "\n".join(lines)


def model_table(model: str, samples: Sequence[Samples]) -> list[str]:
    """All engines on one model; the floor is the time to read the file once at the bandwidth measured for its size."""
    head = ["engine", "precision", "start to first token, s", "first token after 256, ms", "decode, tokens/s",
            "of the floor", "five at once, tokens/s", "peak memory, MB", "disk, MB"]  # fmt: skip
    rows = []
    for sample in samples:
        decode = sample.values["decode"]
        floor = statistics.median(sample.bandwidth) * 1e3 / sample.disk  # tokens per second
        rows.append([
            sample.entry.engine, sample.entry.precision, spread(sample.load, 2),
            spread([1e3 * seconds for seconds in sample.values["first_token"]]), spread(decode, 1),
            f"{statistics.median(decode) / floor:.0%}", spread(sample.values["decode_5"]),
            f"{sample.peak_memory:.0f}", f"{sample.disk:.0f}",
        ])  # fmt: skip
    return [f"### {model}", "", *table(head, rows)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, and an empty line."""
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)] + [""]


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median (min-max)."""
    if not values:
        return "-"
    middle, low, high = (f"{f(values):.{digits}f}" for f in (statistics.median, min, max))
    return middle if len(values) == 1 else f"{middle} ({low}-{high})"
