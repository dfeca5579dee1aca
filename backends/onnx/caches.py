"""Caches as views for ONNX Runtime, which would otherwise compute with tokens outside a layer's window."""

from collections.abc import Iterable
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from backends.buffers import give_back, zeros
from backends.sliding import hidden

FIRST_CAPACITY = 256
"""Tokens of room in a new cache; doubled when it is full."""


def out_of_sight(length: int, windows: Iterable[int]) -> dict[int, int]:
    """For each window, how many of the first of `length` tokens it hides, in whole strides. Window 0 hides none."""
    return {0: 0} | {window: hidden(length, window) for window in windows if window}


def ends_of(window: int) -> tuple[str, str]:
    """The names of the inputs that tell a layer with this window the newest token's place and the cache's length."""
    return (f"last_position_{window}", f"total_length_{window}") if window else ("last_position", "total_length")


def layer_of(name: str) -> int:
    """The index of the layer that a cache of this name belongs to."""
    return int(name.rpartition("_")[2])


def make_room(shape: tuple[int, ...], kind: type, window: int) -> np.ndarray:
    """A cache (rows, kv_heads, capacity, width) of zeros; with a `window`, one more head's worth of bytes follows.

    `shown` may begin within a head and so end in these; they are never written to, and take no memory.
    """
    size = prod(shape)
    return zeros((size + (prod(shape[2:]) if window else 0),), kind)[:size].reshape(shape)


def shown(cache: np.ndarray, unseen: int) -> np.ndarray:
    """A view of the cache that begins `unseen` tokens later in each head, and ends in what is not used."""
    return as_strided(cache[0, 0, unseen:], cache.shape, cache.strides) if unseen else cache


def let_go(part: np.ndarray) -> None:
    """Give the memory of a part of a cache, (rows, kv_heads, tokens, width), back to the system."""
    for row in part:
        for head in row:
            give_back(head)
