"""int8 caches: keys and values as integers, with a power of two as scale for each channel of a head.

Converting to floats and back rounds nothing more, unless a channel's scale doubles; exports are floats.
"""

from collections import deque
from collections.abc import Mapping
from statistics import median

import numpy as np

LONG = 512
"""Length of a text from which reading a quarter of the bytes saves more than it costs."""
AFTER = 16
"""Tokens decoded one by one before the caches are converted, which takes as long as some of them."""
ANSWER = 128
"""Tokens of an answer that together must save what the conversion takes."""
NEVER = 1 << 62
ALLOWED = "bytes-verified"
"""The file beside a graph that records that logits with int8 caches were verified."""
LARGEST = 127
ROOM = 1.5
"""The room left above a channel's largest value so far: of thousands of channels some always grow."""


class Scales:
    """The scales of the int8 caches, (1, kv_heads, 1, width) by cache name, which the graph reads."""

    def __init__(self, shapes: Mapping[str, tuple[int, int]]):
        self.values = {name: np.ones((1, heads, 1, width), np.float32) for name, (heads, width) in shapes.items()}

    def round(self, name: str, floats: np.ndarray) -> np.ndarray:
        """Round a cache (rows, kv_heads, tokens, width) to int8; each channel's largest value sets its scale."""
        scale = self.values[name]
        most = np.maximum(floats.max((0, 2), keepdims=True), -floats.min((0, 2), keepdims=True))
        most = np.maximum(most, 1e-30)
        scale[:] = np.exp2(np.ceil(np.log2(most * ROOM / LARGEST)))
        found = floats * (1 / scale)
        return np.rint(found, out=found).astype(np.int8)

    def restore(self, name: str, held: np.ndarray) -> np.ndarray:
        """The floats that int8 values stand for."""
        return held * self.values[name]

    def widen(self, caches: Mapping[str, np.ndarray], tokens: slice) -> bool:
        """Double the scales of channels in which new tokens reach 127; returns whether there were any.

        Such a value may have been clipped, so that the tokens must be computed again.
        """
        new = np.stack([held[:, :, tokens] for held in caches.values()])  # (caches, rows, kv_heads, tokens, width)
        if np.isinf(next(iter(self.values.values())).max()) or new.max() < LARGEST and new.min() > -LARGEST:
            return False
        full = (new >= LARGEST) | (new <= -LARGEST)
        for name, channels in zip(caches, np.any(full, axis=(1, 3)), strict=True):  # (kv_heads, width)
            if channels.any():
                heads, places = np.nonzero(channels)
                part = caches[name][:, heads, :, places]  # (channels, rows, tokens)
                caches[name][:, heads, :, places] = np.rint(part * np.float32(0.5)).astype(np.int8)
                self.values[name][0, heads, 0, places] *= 2
        return True


class Gain:
    """Measures whether int8 caches pay off: the time of steps with either kind, and of the conversion."""

    def __init__(self) -> None:
        self.steps = {in_bytes: deque[float](maxlen=AFTER) for in_bytes in (False, True)}
        self.turning = 0.0

    def converted(self, seconds: float) -> None:
        """Record a conversion to int8 that took `seconds`."""
        self.turning = seconds
        self.steps[True].clear()

    @property
    def missed(self) -> bool:
        """Whether an answer saves less than the conversion takes, as far as measured."""
        floats, held = self.steps[False], self.steps[True]
        enough = len(floats) == len(held) == AFTER
        return enough and (median(floats) - median(held)) * ANSWER < self.turning
