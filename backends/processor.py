"""The processor: its name, its cores, what it can do, and how much others use it."""

import math
import os
import platform
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

STAT = Path("/proc/stat")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of processor time that a container has in a period, or `max`, and the period."""


@cache
def processor() -> str:
    """The processor's name as its maker gives it."""
    try:
        if platform.system() == "Darwin":
            return subprocess.check_output(["sysctl", "-n", "machdep.cpu.brand_string"], text=True).strip()
    except (OSError, subprocess.SubprocessError):
        return platform.machine()
    names = next(iter(cpuinfo()), {})
    found = " ".join(names[key] for key in ("model name", "cpu family", "model", "stepping") if key in names)
    return found or platform.processor() or platform.machine()


def cores() -> int:
    """Physical cores that this process may use; 0 where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return 0
    allowed = os.sched_getaffinity(0)
    found = {(c.get("physical id"), c.get("core id")) for c in cpuinfo() if int(c.get("processor", -1)) in allowed}
    return min(len(found) if found and (None, None) not in found else len(allowed), quota())


def quota() -> int:
    """How many cores' time the container that this runs in has; without a limit, more than there are."""
    try:
        most, period = map(int, QUOTA.read_text().split())
        return max(1, math.ceil(most / period))
    except (OSError, ValueError, ZeroDivisionError):
        return sys.maxsize


def int8_overflows() -> bool:
    """Whether int8 products may overflow: on x86 without VNNI, and where the system does not tell."""
    return platform.machine().lower() in ("x86_64", "amd64") and not flags() & {"avx_vnni", "avx512_vnni"}


def has_fast_int8() -> bool:
    """Whether AVX-512 VNNI is the fastest way to multiply int8 here: it is there, and AMX is not."""
    return "avx512_vnni" in flags() and "amx_int8" not in flags()


def flags() -> set[str]:
    """The flags of the first processor, on Linux on x86."""
    return {flag for processor in cpuinfo()[:1] for flag in processor.get("flags", "").split()}


@cache
def cpuinfo() -> tuple[dict[str, str], ...]:
    """Facts about each processor, on Linux."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    lines = ([line.partition(":") for line in part.splitlines()] for part in text.split("\n\n") if ":" in part)
    return tuple({key.strip(): value.strip() for key, _, value in part} for part in lines)


class Neighbours:
    """Measures how many cores other processes use; 0 where the system does not tell."""

    def __init__(self) -> None:
        self.start, self.busy = time.monotonic(), busy_seconds()

    def cores(self) -> float:
        """Cores that others have used, on average since the last call."""
        now, busy = time.monotonic(), busy_seconds()
        passed, used = now - self.start, busy - self.busy
        self.start, self.busy = now, busy
        return used / passed if passed else 0.0


def busy_seconds() -> float:
    """Processor seconds used by other processes since boot, on Linux."""
    try:
        first = STAT.read_text().split("\n", 1)[0].split()
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, softirq = (int(ticks) for ticks in first[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK") - time.process_time()
