"""Arrays that take memory only where they are written to, and can give it back to the system."""

import ctypes
import mmap
import sys
from contextlib import suppress
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

UNUSED: int | None = getattr(mmap, "MADV_FREE" if sys.platform == "darwin" else "MADV_DONTNEED", None)
"""The `madvise` advice that pages are no longer needed; None where there is none."""


def zeros(shape: tuple[int, ...], kind: np.dtype | type) -> np.ndarray:
    """An array of zeros that starts at a page boundary."""
    size, page = prod(shape), mmap.PAGESIZE // np.dtype(kind).itemsize
    room: np.ndarray = np.zeros(page + size, kind)
    first = -(room.ctypes.data // room.itemsize) % page
    return room[first : first + size].reshape(shape)


def give_back(part: np.ndarray) -> None:
    """Give the whole pages of a contiguous array back to the system; its contents are undefined afterwards.

    The system may refuse, and then the memory stays.
    """
    start = part.__array_interface__["data"][0]
    first, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, (start + part.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < end:
        release(first, end)


def give_back_file(path: Path) -> None:
    """Drop the pages of a read-only mapped file from memory, on Linux; they are read again when needed."""
    name = f" {path.resolve()}"
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, rights = line.split(maxsplit=2)[:2]
            if line.endswith(name) and rights.startswith("r--"):
                release(*(int(end, 16) for end in span.split("-")))


def release(first: int, end: int) -> None:
    """Advise the system that the pages from `first` to `end` are no longer needed."""
    assert UNUSED is not None
    system().madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), UNUSED)


@cache
def system() -> ctypes.CDLL:
    return ctypes.CDLL(None)
