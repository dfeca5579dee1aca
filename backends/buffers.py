"""Arrays that take memory of the system only where they are written to, and give it back."""

import ctypes
import mmap
import sys
from functools import cache
from math import prod

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
    assert UNUSED is not None  # as where sessions let go of tokens
    start = part.__array_interface__["data"][0]
    first, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, (start + part.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < end:
        system().madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), UNUSED)


@cache
def system() -> ctypes.CDLL:
    return ctypes.CDLL(None)
