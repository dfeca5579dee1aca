"""Round weights to integers and microscaling formats, a megabyte at a time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from backends import BackendError
from backends.decoder import Lazy, Quantized, Weight, Weights
from backends.microscaling import one_level, two_levels

CHUNK = 1 << 18
"""Values handled at once, so that each pass stays in the processor's cache."""
HELD: Mapping[int, type[np.integer[Any]]] = {4: np.uint8, 8: np.int8, 16: np.int16}  # Any: of any width
"""Array types by bits per value; two nibbles share a byte."""
LEAST = 16
"""The smallest block; rows that it does not divide become int8."""

Blocks = tuple[np.ndarray, ...]
"""Values (..., block) around zero, scales (...) and, where zero is not 0, zero points (...)."""


def symmetric8(x: np.ndarray) -> Blocks:
    """Blocks `x` (..., block) as -127..127."""
    scales = np.maximum(np.abs(x).max(-1) / 127, 1e-9)
    return np.rint(np.divide(x, scales[..., None], out=x), out=x), scales


def symmetric4(x: np.ndarray) -> Blocks:
    """Blocks `x` (..., block) as -8..7; the value with the largest magnitude becomes -8."""
    low, high = x.min(-1), x.max(-1)
    scales = np.where(-low > high, low, high) / -8
    scales[scales == 0] = 1e-9
    x *= (1 / scales)[..., None]
    return np.minimum(np.rint(x, out=x), 7, out=x), scales


def asymmetric(x: np.ndarray, *, bits: int) -> Blocks:
    """Blocks `x` (..., block) as -8..7 or -128..127, mapping [min, max], extended to hold 0, to the whole range."""
    least, steps = -(1 << bits - 1), (1 << bits) - 1
    low, high = np.minimum(x.min(-1), 0), np.maximum(x.max(-1), 0)
    scales = np.maximum((high - low) / steps, 1e-9)
    zero_points = least + np.rint(-low / scales)
    x = np.rint(np.divide(x, scales[..., None], out=x), out=x)
    x += zero_points[..., None]
    return np.clip(x, least, least + steps, out=x), scales, zero_points


@dataclass(frozen=True)
class Precision:
    """How matrices are rounded: `bits` per value, and `block` neighbours of a row (0: all) share a scale."""

    bits: int = 32
    block: int = 0
    round: Callable[[np.ndarray], Blocks] | None = None
    format: str = ""


def integers(bits: int, default: int) -> Iterator[tuple[str, Precision]]:
    """Yield integer precisions by name: int4, int4-64, int4-asym-channel, ...; the `default` block is not named."""
    rounders = ("", symmetric4 if bits == 4 else symmetric8), ("-asym", partial(asymmetric, bits=bits))
    for kind, rounder in rounders:
        for block in sorted((0, 128, 64, 32), key=lambda block: block != default):
            suffix = "" if block == default else f"-{block or 'channel'}"
            yield f"int{bits}{kind}{suffix}", Precision(bits, block, rounder)


PRECISIONS: Mapping[str, Precision] = {
    "f32": Precision(),
    "f16": Precision(16),
    **dict(integers(8, default=0)),
    **dict(integers(4, default=128)),
    "mxint8": Precision(8, 32, partial(one_level, top=127, mantissa=6), "mxint8"),
    "mxfp6-e2m3": Precision(8, 32, partial(one_level, top=60, mantissa=3), "mxfp6-e2m3"),
    "mxfp6-e3m2": Precision(16, 32, partial(one_level, top=448, mantissa=2), "mxfp6-e3m2"),
    "mxfp4": Precision(8, 32, partial(one_level, top=12, mantissa=1), "mxfp4"),
    "mx9": Precision(16, 16, partial(two_levels, magnitude=7), "mx9"),
    "mx6": Precision(8, 16, partial(two_levels, magnitude=4), "mx6"),
    "mx4": Precision(4, 16, partial(two_levels, magnitude=2), "mx4"),
}


def precision(name: str) -> Precision:
    """The precision called `name`."""
    if name not in PRECISIONS:
        raise BackendError(f"unknown precision {name!r}; choose from {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


EXACT = (
    "position_embedding", "relative_bias", "router", "shared_gate", "convolution", "rates_proj", "altup_prediction",
    "altup_correction", "keys_proj", "queries_proj", "decay",
)  # fmt: skip
"""Name endings of matrices that are never rounded: they are small, only looked up, or control routing and states."""


class Rounded(Lazy):
    """Weights whose embedding and multiplied matrices are rounded when they are read."""

    def __init__(self, weights: Weights, to: Precision):
        self.table = self.weights = weights
        self.to = to

    def __getitem__(self, name: str) -> Weight:
        weight = self.weights[name]
        values = weight.values
        if self.to.bits == 32 or isinstance(values, Quantized) or values.ndim != 2 or name.endswith(EXACT):
            return weight
        to = rounded(values, self.to) if self.to.round else half(values, weight.name)
        return Weight(weight.name, to, weight.bias)


def half(values: np.ndarray, name: str) -> np.ndarray:
    """A weight's values in float16; raises BackendError if they do not fit."""
    with np.errstate(over="ignore"):
        found = np.asarray(values, np.float16)
    if not np.isfinite(found).all():
        raise BackendError(f"the weight {name} has values that float16 cannot hold; try another backend or precision")
    return found


def rounded(values: np.ndarray, to: Precision) -> Quantized:
    """`values` (out, in) at the precision `to`; rows that 16 does not divide become int8."""
    rows, size = values.shape
    whole_rows = size if to.bits == 8 or not size % LEAST else 0
    block = block_for(size, to.block) if to.block else whole_rows
    if not block:
        return rounded(values, PRECISIONS["int8"])
    assert to.round is not None  # f32 and f16 are not rounded here
    held = np.empty((rows, size // 2 if to.bits == 4 else size), HELD[to.bits])
    scales, zero_points = np.empty((rows, size // block), np.float32), None
    for here, x in chunks(values):
        whole, scales[here], *zeros = to.round(x.reshape(-1, size // block, block))
        held[here] = nibbles(whole.reshape(x.shape)) if to.bits == 4 else whole.reshape(x.shape)
        if zeros:
            zero_points = np.empty(scales.shape, HELD[to.bits]) if zero_points is None else zero_points
            zero_points[here] = zeros[0] + 8 if to.bits == 4 else zeros[0]
    return Quantized(held, scales, to.bits, block, zero_points, to.format)


def nibbles(x: np.ndarray) -> np.ndarray:
    """Whole numbers -8..7 (rows, in) as uint8 pairs (rows, in / 2), the low nibble first; 8 stands for 0."""
    pairs = (x.astype(np.int8) + np.int8(8)).view(np.uint16)
    return (pairs | pairs >> 4).astype(np.uint8)


def block_for(size: int, block: int) -> int:
    """The largest of `block`, `block / 2`, ..., 16 that divides `size`; 0 if none does."""
    while block >= LEAST and size % block:
        block //= 2
    return block if block >= LEAST else 0


def dequantize(values: np.ndarray | Quantized, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """The rows chosen by `rows`, as floats (..., in)."""
    if not isinstance(values, Quantized):
        return values[rows]
    chosen, scales = values.values[rows], values.scales[rows]
    if values.bits == 4:
        chosen = np.stack([chosen & 15, chosen >> 4], axis=-1).reshape(*chosen.shape[:-1], -1)
    blocks = chosen.reshape(*scales.shape, values.block).astype(np.float32)
    if values.zero_points is not None:
        blocks -= values.zero_points[rows][..., None]
    elif values.bits == 4:
        blocks -= 8
    return np.asarray((blocks * scales[..., None]).reshape(*scales.shape[:-1], -1), np.float32)


def chunks(weight: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows, and float32 copies of them."""
    step = max(1, CHUNK // weight.shape[1])
    for start in range(0, len(weight), step):
        here = slice(start, start + step)
        yield here, np.array(weight[here], np.float32, order="C")
