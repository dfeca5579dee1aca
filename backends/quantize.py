"""Round weights to int8 per row or int4 per block, a megabyte at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from backends import BackendError
from backends.decoder import Quantized, Weight, Weights

CHUNK = 1 << 18
"""Values handled at once, so that every pass stays in the processor's cache."""


@dataclass(frozen=True)
class Precision:
    """What matrices are rounded to: `bits` each, int4 with one scale per `block` neighbours."""

    bits: int
    block: int = 0


PRECISIONS: Mapping[str, Precision] = {
    "f32": Precision(32),
    "int8": Precision(8),
    "int4": Precision(4, 128),
    "int4-64": Precision(4, 64),
    "int4-32": Precision(4, 32),
}


def precision(name: str) -> Precision:
    """The precision called `name`."""
    if name not in PRECISIONS:
        raise BackendError(f"there is no precision called {name!r}; choose from {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


EXACT = ("position_embedding", "relative_bias")
"""Tables that are small and not multiplied by."""


class Rounded(Mapping[str, Weight]):
    """The same weights, with the embedding and every matrix that is multiplied rounded."""

    def __init__(self, weights: Weights, to: Precision):
        self.weights, self.to = weights, to

    def __iter__(self) -> Iterator[str]:
        return iter(self.weights)

    def __len__(self) -> int:
        return len(self.weights)

    def __contains__(self, name: object) -> bool:
        return name in self.weights

    def __getitem__(self, name: str) -> Weight:
        weight = self.weights[name]
        values = weight.values
        if self.to.bits == 32 or isinstance(values, Quantized) or values.ndim != 2 or name.endswith(EXACT):
            return weight
        return Weight(weight.name, rounded(values, self.to), weight.bias)


def rounded(values: np.ndarray, to: Precision) -> Quantized:
    """`values` (out, in) at the precision `to`; rows that no block divides stay at eight bits."""
    block = block_for(values.shape[1], to.block) if to.bits == 4 else 0
    return int4(values, block) if block else int8(values)


def block_for(size: int, block: int) -> int:
    """The largest of `block`, a half of it, ... and 16 that divides rows of `size`; 0 when none does."""
    while block >= 16 and size % block:
        block //= 2
    return block if block >= 16 else 0


def int8(weight: np.ndarray) -> Quantized:
    """Symmetric, one scale per row of `weight` (out, in)."""
    rows, size = weight.shape
    values, scales = np.empty((rows, size), np.int8), np.empty((rows, 1), np.float32)
    for here, x in chunks(weight):
        scale = np.maximum(np.abs(x).max(1, keepdims=True) / 127, 1e-9)
        values[here], scales[here] = np.rint(np.divide(x, scale, out=x), out=x), scale
    return Quantized(values, scales, bits=8, block=size)


def int4(weight: np.ndarray, block: int) -> Quantized:
    """Symmetric with the full range -8..7: the extreme of each block of `weight` (out, in) is -8."""
    rows, size = weight.shape
    values, scales = np.empty((rows, size // 2), np.uint8), np.empty((rows, size // block), np.float32)
    for here, x in chunks(weight):
        x = x.reshape(-1, size // block, block)
        low, high = x.min(2), x.max(2)
        scale = np.where(-low > high, low, high) / -8
        scale[scale == 0] = 1e-9
        x *= (1 / scale)[:, :, None]
        x += 8.5
        pairs = np.minimum(x, 15, out=x).astype(np.uint8).reshape(-1, size).view(np.uint16)
        values[here], scales[here] = pairs | pairs >> 4, scale
    return Quantized(values, scales, bits=4, block=block)


def dequantize(values: np.ndarray | Quantized, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """The rows chosen by `rows`, as numbers (..., in)."""
    if not isinstance(values, Quantized):
        return values[rows]
    chosen, scales = values.values[rows], values.scales[rows]
    if values.bits == 4:
        chosen = np.stack([chosen & 15, chosen >> 4], axis=-1).reshape(*chosen.shape[:-1], -1).astype(np.float32) - 8
    blocks = chosen.reshape(*chosen.shape[:-1], -1, values.block)
    return np.asarray((blocks * scales[..., None]).reshape(chosen.shape), np.float32)


def chunks(weight: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (rows, a float32 copy of them)."""
    step = max(1, CHUNK // weight.shape[1])
    for start in range(0, len(weight), step):
        here = slice(start, start + step)
        yield here, np.array(weight[here], np.float32, order="C")
