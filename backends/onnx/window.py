"""Caches whose beginning no layer sees: ONNX Runtime would compute with all of it, so that it is shown less."""

from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

STRIDE = 256
"""By how many tokens at a time the graph is shown less of a cache whose beginning no layer sees."""


def out_of_sight(length: int, window: int) -> int:
    """Tokens at the beginning of so many that no layer sees, in whole strides."""
    return max(length + 1 - window, 0) // STRIDE * STRIDE if window else 0


def make_room(shape: tuple[int, ...], kind: type, window: int) -> np.ndarray:
    """A cache (rows, kv_heads, capacity, width) of zeros, with a `window` before as many bytes as a head takes.

    The system gives memory only to what is written to, which these never are.
    """
    size = prod(shape)
    return np.zeros(size + (prod(shape[2:]) if window else 0), kind)[:size].reshape(shape)


def shown(cache: np.ndarray, unseen: int) -> np.ndarray:
    """A cache without its first tokens: each head begins later, and ends in what is not used."""
    return as_strided(cache[0, 0, unseen:], cache.shape, cache.strides) if unseen else cache
