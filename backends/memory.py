"""How much memory there is, and whether weights fit it."""

import os
import sys
from pathlib import Path

ROOM = 0.8
"""The share of the memory that weights may take; larger ones stay on disk and are read as needed."""


def overflows_memory(weights: int) -> bool:
    """Whether `weights` bytes are too many to keep in memory."""
    return weights > ROOM * memory()


def memory() -> int:
    """Bytes of memory of this machine, or of the container this runs in."""
    if sys.platform == "win32":
        return windows_memory()
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return whole
    return min(whole, int(limit)) if limit.isdecimal() else whole


if sys.platform == "win32":
    import ctypes

    class Status(ctypes.Structure):
        """MEMORYSTATUSEX of sysinfoapi.h."""

        _fields_ = [
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            ("total", ctypes.c_uint64),
            ("rest", ctypes.c_uint64 * 6),
        ]

    def windows_memory() -> int:
        """Bytes of memory of a Windows machine."""
        status = Status()
        status.length = ctypes.sizeof(status)
        if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
            raise OSError("Windows does not report how much memory there is")
        return int(status.total)
