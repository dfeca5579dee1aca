"""Caches as ONNX Runtime is shown them: it would compute with all of one, also with what its layer does not see."""

from collections.abc import Iterable
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from backends.buffers import give_back, zeros
from backends.sliding import hidden

FIRST_CAPACITY = 256
"""Tokens for which a new cache has room; it doubles when they are used up."""


def out_of_sight(length: int, windows: Iterable[int]) -> dict[int, int]:
    """By window: tokens at the beginning of so many that it leaves out, in whole strides. The window 0 sees all."""
    return {0: 0} | {window: hidden(length, window) for window in windows if window}


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
    return zeros((size + (prod(shape[2:]) if window else 0),), kind)[:size].reshape(shape)


def shown(cache: np.ndarray, unseen: int) -> np.ndarray:
    """A cache without its first tokens: each head begins later, and ends in what is not used."""
    return as_strided(cache[0, 0, unseen:], cache.shape, cache.strides) if unseen else cache


def let_go(part: np.ndarray) -> None:
    """Give back some tokens of a cache, (rows, kv_heads, tokens, width)."""
    for row in part:
        for head in row:
            give_back(head)
