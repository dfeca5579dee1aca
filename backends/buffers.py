"""Arrays that take memory of the system only where they are written to, and give it back."""

import ctypes
import mmap
import sys
from contextlib import suppress
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

UNUSED: int | None = getattr(mmap, "MADV_FREE" if sys.platform == "darwin" else "MADV_DONTNEED", None)
"""What tells the system that nobody will read what some memory holds; None where it cannot be told."""


def zeros(shape: tuple[int, ...], kind: np.dtype | type) -> np.ndarray:
    """An array of zeros that begins with a page of memory."""
    size, page = prod(shape), mmap.PAGESIZE // np.dtype(kind).itemsize
    room: np.ndarray = np.zeros(page + size, kind)
    first = -(room.ctypes.data // room.itemsize) % page
    return room[first : first + size].reshape(shape)


def give_back(part: np.ndarray) -> None:
    """Let the system have the whole pages of a part without gaps; what it holds may be anything then.

    The system may refuse, and then the memory stays.
    """
    start = part.__array_interface__["data"][0]
    first, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, (start + part.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < end:
        release(first, end)


def give_back_file(path: Path) -> None:
    """Let the system have the memory of a file that is mapped to be read, on Linux: who reads on gets it anew."""
    name = f" {path.resolve()}"
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, rights = line.split(maxsplit=2)[:2]
            if line.endswith(name) and rights.startswith("r--"):
                release(*(int(end, 16) for end in span.split("-")))


def release(first: int, end: int) -> None:
    """Tell the system that nobody will read what the pages from `first` to `end` hold."""
    assert UNUSED is not None
    system().madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), UNUSED)


@cache
def system() -> ctypes.CDLL:
    return ctypes.CDLL(None)
