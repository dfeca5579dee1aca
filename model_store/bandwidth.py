"""Estimate decoding speed: each token reads all weights once, at a share of the memory's bandwidth.

Measurements are kept in the store, so that estimates do not change with what else the machine does.
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
"""The file with measurements, in the store's folder; by machine, since a store may be on a removable disk."""
REACHED = 0.5
"""The share of the bandwidth that decoding reaches, until models have been timed: 0.39 to 0.62 were measured
(benchmarks/README.md)."""
SAMPLE = 1 << 26
"""Bytes read to measure the bandwidth: more than most caches hold, and little compared with a pull."""
ENOUGH = 20
"""How many models' shares are kept, the newest."""


@dataclass(frozen=True)
class Speed:
    """The speed of this machine's memory."""

    bandwidth: float = 0.0
    """Bytes per second, the most ever measured, as disturbances only slow it down; 0: not measured yet."""
    reached: tuple[float, ...] = ()
    """The shares of the bandwidth that timed models reached."""

    @property
    def share(self) -> float:
        """The share that decoding reaches."""
        return statistics.median(self.reached) if self.reached else REACHED

    def tokens_per_second(self, weights: int) -> float:
        """The estimated tokens per second with `weights` bytes of weights."""
        return self.share * self.bandwidth / max(1, weights)


def speed(root: Path, *, again: bool = False) -> Speed:
    """The speed of this machine's memory, measured in a tenth of a second if it never was, or `again`."""
    known = read(root)
    if known.bandwidth and not again:
        return known
    return keep(root, replace(known, bandwidth=max(known.bandwidth, measure())))


def learn(root: Path, weights: int, seconds: float) -> None:
    """Record that a token with `weights` bytes of weights, more than caches hold, took `seconds`."""
    if weights > SAMPLE and seconds > 0:
        known = speed(root)
        share = weights / seconds / known.bandwidth
        keep(root, replace(known, reached=(*known.reached, min(1.0, share))[-ENOUGH:]))


def measure() -> float:
    """Measure the bytes per second that all cores together read from memory."""
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
    """A name for this kind of machine."""
    return f"{processor()}, {os.cpu_count()} cores"


def read(root: Path) -> Speed:
    """Read the recorded speed; an unknown one if the file is missing or damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        facts = json.loads((root / FILE).read_text("utf-8"))[machine()]
        return Speed(float(facts["bandwidth"]), tuple(float(share) for share in facts["reached"]))
    return Speed()


def keep(root: Path, known: Speed) -> Speed:
    """Record a speed, if there is a store that can be written."""
    with suppress(OSError):
        if not root.is_dir():  # plans must not write
            return known
        everything: dict[str, object] = {}
        with suppress(OSError, ValueError, TypeError, RecursionError):
            everything = dict(json.loads((root / FILE).read_text("utf-8")))
        write_json(root / FILE, {**everything, machine(): asdict(known)})
    return known
