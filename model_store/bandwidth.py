"""About how fast a model would decode here: each token reads all weights once, at a share of the memory's bandwidth.

What was measured is kept in the store, so that an estimate does not change with what else the machine does.
"""

import json
import os
import statistics
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from backends.processor import processor
from model_store.files import write_json

FILE = ".bandwidth.json"
"""In the store's folder: what was measured, by machine, for a store may be on a disk that moves."""
REACHED = 0.5
"""The share of the bandwidth that decoding reaches, until models have been timed: 0.39 to 0.62 were measured
(benchmarks/README.md)."""
SAMPLE = 1 << 26
"""Bytes that are read to measure the bandwidth: more than most caches hold, little of what a pull may take."""
ENOUGH = 20
"""Models whose share is kept, the newest."""


@dataclass(frozen=True)
class Speed:
    """The speed of this machine's memory."""

    bandwidth: float = 0.0
    """Bytes per second, the most that was ever measured: what disturbs only ever slows. 0: not measured yet."""
    reached: tuple[float, ...] = ()
    """The shares of it that models reached when they were timed."""

    @property
    def share(self) -> float:
        """The share that decoding reaches."""
        return statistics.median(self.reached) if self.reached else REACHED

    def tokens_per_second(self, weights: int) -> float:
        """About how fast a model with so many bytes of weights would decode here."""
        return self.share * self.bandwidth / max(1, weights)


def speed(root: Path, *, again: bool = False) -> Speed:
    """The speed of this machine's memory, measured in a tenth of a second where it never was, or is to be again."""
    known = read(root)
    if known.bandwidth and not again:
        return known
    return keep(root, replace(known, bandwidth=max(known.bandwidth, measure())))


def learn(root: Path, weights: int, seconds: float) -> None:
    """A model with so many bytes of weights, more than caches hold, took so long for a token."""
    if weights > SAMPLE and seconds > 0:
        known = speed(root)
        share = weights / seconds / known.bandwidth
        keep(root, replace(known, reached=(*known.reached, min(1.0, share))[-ENOUGH:]))


def measure() -> float:
    """Bytes per second that all cores together read from memory."""
    data = np.ones(SAMPLE // 8)
    threads = min(os.cpu_count() or 1, 8)
    best = float("inf")
    for _ in range(3):
        parts = [threading.Thread(target=part.max) for part in np.array_split(data, threads)]
        start = time.perf_counter()
        for thread in parts:
            thread.start()
        for thread in parts:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return SAMPLE / best


def machine() -> str:
    """The name of this machine's kind."""
    return f"{processor()}, {os.cpu_count()} cores"


def read(root: Path) -> Speed:
    """The speed that is kept; an unknown one where the file is not there or damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        facts = json.loads((root / FILE).read_text("utf-8"))[machine()]
        return Speed(float(facts["bandwidth"]), tuple(float(share) for share in facts["reached"]))
    return Speed()


def keep(root: Path, known: Speed) -> Speed:
    """Keep a speed, where there is a store that can be written."""
    with suppress(OSError):
        if not root.is_dir():  # a plan writes nothing
            return known
        everything: dict[str, object] = {}
        with suppress(OSError, ValueError, TypeError, RecursionError):
            everything = dict(json.loads((root / FILE).read_text("utf-8")))
        write_json(root / FILE, {**everything, machine(): asdict(known)})
    return known
