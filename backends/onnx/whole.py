"""Caches of bytes: keys and values as whole numbers, each channel of a head with a scale that is a power of two.

So they become floats and bytes again with no other rounding than that of a channel whose scale doubles: whoever
exports a cache gets floats.
"""

from collections import deque
from collections.abc import Mapping
from statistics import median

import numpy as np

LONG = 512
"""Tokens of a text from which reading a quarter of the bytes gains more than it takes."""
AFTER = 16
"""Tokens that are decoded one after the other before caches become bytes, which takes as long as some of them."""
ANSWER = 128
"""Tokens of an answer, of which the steps must gain together what turning the caches into bytes takes."""
NEVER = 1 << 62
ALLOWED = "bytes-verified"
"""The file beside a graph that says that its logits were compared with caches of bytes, and are good enough."""
LARGEST = 127
ROOM = 1.5
"""How many times as large as all before a channel of the next tokens may be: of thousands some always are larger."""


class Scales:
    """The scales of the caches, arrays (1, kv_heads, 1, width) by the names of the caches, which a graph reads."""

    def __init__(self, shapes: Mapping[str, tuple[int, int]]):
        self.values = {name: np.ones((1, heads, 1, width), np.float32) for name, (heads, width) in shapes.items()}

    def round(self, name: str, floats: np.ndarray) -> np.ndarray:
        """The bytes of a cache (rows, kv_heads, tokens, width), whose largest number of each channel sets its scale."""
        scale = self.values[name]
        most = np.maximum(floats.max((0, 2), keepdims=True), -floats.min((0, 2), keepdims=True))
        most = np.maximum(most, 1e-30)
        scale[:] = np.exp2(np.ceil(np.log2(most * ROOM / LARGEST)))
        found = floats * (1 / scale)
        return np.rint(found, out=found).astype(np.int8)

    def restore(self, name: str, held: np.ndarray) -> np.ndarray:
        """The floats that bytes stand for."""
        return held * self.values[name]

    def widen(self, caches: Mapping[str, np.ndarray], tokens: slice) -> bool:
        """Double the scales of channels in which new tokens reach the largest byte; whether there were any.

        Such a token may be larger than its byte can say: it must be computed again.
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
    """What steps of one token took with caches of floats and of bytes, and what turning these into those took."""

    def __init__(self) -> None:
        self.steps = {in_bytes: deque[float](maxlen=AFTER) for in_bytes in (False, True)}
        self.turning = 0.0

    def turned(self, seconds: float) -> None:
        """Caches have become bytes, which took so long; the steps are measured from here."""
        self.turning = seconds
        self.steps[True].clear()

    @property
    def missed(self) -> bool:
        """Whether an answer gains less by bytes than they take, as far as that is known."""
        floats, held = self.steps[False], self.steps[True]
        enough = len(floats) == len(held) == AFTER
        return enough and (median(floats) - median(held)) * ANSWER < self.turning
