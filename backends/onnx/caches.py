"""Caches as ONNX Runtime is shown them: it would compute with all of one, also with what its layer does not see."""

from collections.abc import Iterable
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

FIRST_CAPACITY = 256
"""Tokens for which a new cache has room; it doubles when they are used up."""
STRIDE = 256
"""By how many tokens at a time the graph is shown less of a cache whose beginning its layer does not see."""


def out_of_sight(length: int, windows: Iterable[int]) -> dict[int, int]:
    """By window: tokens at the beginning of so many that it leaves out, in whole strides. The window 0 sees all."""
    return {0: 0} | {window: max(length + 1 - window, 0) // STRIDE * STRIDE for window in windows if window}


def ends_of(window: int) -> tuple[str, str]:
    """The inputs that tell a layer with such a window where the newest token lies in its cache, and how many do."""
    return (f"last_position_{window}", f"total_length_{window}") if window else ("last_position", "total_length")


def layer_of(name: str) -> int:
    """The number of the layer whose cache is called so."""
    return int(name.rpartition("_")[2])


def make_room(shape: tuple[int, ...], kind: type, window: int) -> np.ndarray:
    """A cache (rows, kv_heads, capacity, width) of zeros, with a `window` before as many bytes as a head takes.

    The system gives memory only to what is written to, which these never are.
    """
    size = prod(shape)
    return np.zeros(size + (prod(shape[2:]) if window else 0), kind)[:size].reshape(shape)


def shown(cache: np.ndarray, unseen: int) -> np.ndarray:
    """A cache without its first tokens: each head begins later, and ends in what is not used."""
    return as_strided(cache[0, 0, unseen:], cache.shape, cache.strides) if unseen else cache
