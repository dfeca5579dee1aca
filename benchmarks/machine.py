"""What the machine gives and takes while engines are timed: memory bandwidth, other processes, a busy neighbour."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("bandwidth.c")
BUSY = "while True: pass"


class Bandwidth:
    """Measures how fast two threads read some megabytes again and again: C where there is a compiler, else NumPy."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.program = Path(self.folder.name) / "bandwidth"
        command = ["cc", "-O3", "-march=native", "-pthread", str(SOURCE), "-o", str(self.program)]
        try:
            self.compiled = subprocess.run(command, capture_output=True).returncode == 0
        except FileNotFoundError:
            self.compiled = False
        self.how = "C" if self.compiled else "NumPy"

    def measure(self, megabytes: int) -> float:
        """Gigabytes per second, the best of several passes."""
        if not self.compiled:
            code = f"from machine import numpy_bandwidth; print(numpy_bandwidth({megabytes}))"
            command = [sys.executable, "-c", code]  # elsewhere, for its memory would count as that of every child
        else:
            command = [str(self.program), str(megabytes)]
        output = subprocess.run(command, capture_output=True, check=True, text=True, cwd=SOURCE.parent).stdout
        return max(float(line) for line in output.split())


def numpy_bandwidth(megabytes: int) -> float:
    """The same with NumPy's maximum, which releases the interpreter's lock."""
    halves = np.ones((2, megabytes << 17), np.float32)
    best = 0.0
    with ThreadPoolExecutor(2) as threads:
        for _ in range(8):
            start = time.perf_counter()
            list(threads.map(np.max, halves))
            best = max(best, halves.nbytes / (time.perf_counter() - start) / 1e9)
    return best


def busy_cores(seconds: float = 0.3) -> float | None:
    """Cores that other processes use at the moment, where the system tells (Linux)."""

    def ticks() -> int:
        user, nice, system, _, _, *rest = (int(word) for word in Path("/proc/stat").read_text().split()[1:9])
        return user + nice + system + sum(rest)

    try:
        before = ticks()
        time.sleep(seconds)
        return (ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds
    except (OSError, ValueError):
        return None


@contextmanager
def neighbour(core: int | None = None) -> Iterator[None]:
    """Keep a core busy from another process: the given one, or whichever the system picks."""
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def last_core() -> int | None:
    """A core to pin a neighbour to, where the system allows it."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
