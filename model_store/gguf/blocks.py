"""GGUF's block formats: how to unpack their numbers exactly, and what keeps them without rounding.

A weight of any format is `scale * number + offset`, with scale and offset shared by a group of neighbours
(ggml-quants.c in https://github.com/ggml-org/ggml). Formats without offsets are integers like ours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from backends.decoder import Quantized
from backends.quantize import nibbles
from model_store.checkpoint.mxfp4 import ELEMENTS, scales_of
from model_store.gguf import grids

Parts = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""Numbers (n, block) int8, scales (n, groups) float32, and offsets (n, groups) float32 or None."""


@dataclass(frozen=True)
class Kind:
    """A data type: `block` weights in `size` bytes."""

    name: str
    block: int
    size: int
    unpack: Callable[[np.ndarray], Parts] | None = None
    """Unpacks blocks (n, size) uint8; None for plain numbers of type `dtype`."""
    dtype: np.dtype = np.dtype(np.float32)
    bits: int = 0
    """Bits that hold its numbers, 4 or 8, if it has no offsets; otherwise 0."""
    tail: int = 0
    """Bytes after all blocks that begin with one float32 scale, which is then appended to each block."""

    def stored(self, count: int) -> int:
        """Bytes of that many weights in the file."""
        return count // self.block * self.size + self.tail

    def blocks(self, data: np.ndarray) -> np.ndarray:
        """A tensor's blocks, (n, ...) bytes."""
        if not self.tail:
            return data.reshape(-1, self.size)
        found = data[: -self.tail].reshape(-1, self.size)
        return np.concatenate([found, np.tile(data[-self.tail :][:4], (len(found), 1))], axis=1)


def half(blocks: np.ndarray, place: int) -> np.ndarray:
    """The float16 at a place of each block, (n, 1) float32."""
    return np.ascontiguousarray(blocks[:, place : place + 2]).view("<f2").astype(np.float32)


def low_then_high(blocks: np.ndarray, *, together: int, bits: int) -> np.ndarray:
    """Unpack small numbers (n, -1): for each `together` bytes, first all lowest `bits`, then the next ones, ..."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    parts = blocks.reshape(len(blocks), -1, 1, together) >> shifts & np.uint8((1 << bits) - 1)
    return parts.reshape(len(blocks), -1)


def q8_0(blocks: np.ndarray) -> Parts:
    return blocks[:, 2:].view(np.int8), half(blocks, 0), None


def q4_0(blocks: np.ndarray) -> Parts:
    return low_then_high(blocks[:, 2:], together=16, bits=4).view(np.int8) - np.int8(8), half(blocks, 0), None


def q4_1(blocks: np.ndarray) -> Parts:
    return low_then_high(blocks[:, 4:], together=16, bits=4).view(np.int8), half(blocks, 0), half(blocks, 2)


def fifth_bits(blocks: np.ndarray) -> np.ndarray:
    """One bit for each of 32 numbers, worth 16."""
    return np.unpackbits(blocks, axis=1, bitorder="little") << 4


def q5_0(blocks: np.ndarray) -> Parts:
    q = low_then_high(blocks[:, 6:], together=16, bits=4) | fifth_bits(blocks[:, 2:6])
    return q.view(np.int8) - np.int8(16), half(blocks, 0), None


def q5_1(blocks: np.ndarray) -> Parts:
    q = low_then_high(blocks[:, 8:], together=16, bits=4) | fifth_bits(blocks[:, 4:8])
    return q.view(np.int8), half(blocks, 0), half(blocks, 2)


def q2_k(blocks: np.ndarray) -> Parts:
    shares, q = blocks[:, :16], low_then_high(blocks[:, 16:80], together=32, bits=2)
    return q.view(np.int8), half(blocks, 80) * (shares & 15), -(half(blocks, 82) * (shares >> 4))


def q3_k(blocks: np.ndarray) -> Parts:
    q = low_then_high(blocks[:, 32:96], together=32, bits=2).view(np.int8)
    q = q - (4 - (low_then_high(blocks[:, :32], together=32, bits=1) << 2)).view(np.int8)  # an unset bit means -4
    low = low_then_high(blocks[:, 96:104], together=8, bits=4)
    high = low_then_high(blocks[:, 104:108], together=4, bits=2)
    shares = (low | high << 4).view(np.int8) - np.int8(32)
    return q, half(blocks, 108) * shares, None


def shares_of(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight scales and eight offsets of six bits each, from twelve bytes."""
    scales, offsets, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:12]
    return (
        np.concatenate([scales & 63, rest & 15 | scales >> 2 & 48], axis=1),
        np.concatenate([offsets & 63, rest >> 4 | offsets >> 2 & 48], axis=1),
    )


def q4_k(blocks: np.ndarray) -> Parts:
    scales, offsets = shares_of(blocks[:, 4:16])
    q = low_then_high(blocks[:, 16:], together=32, bits=4).view(np.int8)
    return q, half(blocks, 0) * scales, -(half(blocks, 2) * offsets)


def q5_k(blocks: np.ndarray) -> Parts:
    scales, offsets = shares_of(blocks[:, 4:16])
    q = low_then_high(blocks[:, 48:], together=32, bits=4)
    q = (q | low_then_high(blocks[:, 16:48], together=32, bits=1) << 4).view(np.int8)
    return q, half(blocks, 0) * scales, -(half(blocks, 2) * offsets)


def q6_k(blocks: np.ndarray) -> Parts:
    q = low_then_high(blocks[:, :128], together=64, bits=4)
    q = (q | low_then_high(blocks[:, 128:192], together=32, bits=2) << 4).view(np.int8) - np.int8(32)
    return q, half(blocks, 208) * blocks[:, 192:208].view(np.int8), None


STEPS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)
"""The values of four bits in IQ4_NL and IQ4_XS."""


def iq4_nl(blocks: np.ndarray) -> Parts:
    return STEPS[low_then_high(blocks[:, 2:], together=16, bits=4)], half(blocks, 0), None


def iq4_xs(blocks: np.ndarray) -> Parts:
    high = low_then_high(blocks[:, 2:4], together=1, bits=2)
    low = low_then_high(blocks[:, 4:8], together=1, bits=4)
    shares = (low | high << 4).view(np.int8) - np.int8(32)
    return STEPS[low_then_high(blocks[:, 8:], together=16, bits=4)], half(blocks, 0) * shares, None


POWERS = np.array([1, 3, 9, 27, 81], np.uint8)[:, None]


def thirds(blocks: np.ndarray, count: int) -> np.ndarray:
    """The first `count` of each byte's five ternary numbers, as -1, 0 and 1, grouped by place in the byte."""
    fractions = blocks[:, None] * POWERS[:count]
    return ((fractions.astype(np.uint16) * 3 >> 8).astype(np.int8) - np.int8(1)).reshape(len(blocks), -1)


def tq1_0(blocks: np.ndarray) -> Parts:
    parts = thirds(blocks[:, :32], 5), thirds(blocks[:, 32:48], 5), thirds(blocks[:, 48:52], 4)
    return np.concatenate(parts, axis=1), half(blocks, 52).repeat(2, axis=1), None


def tq2_0(blocks: np.ndarray) -> Parts:
    q = low_then_high(blocks[:, :64], together=32, bits=2).view(np.int8) - np.int8(1)
    return q, half(blocks, 64).repeat(2, axis=1), None


def i2_s(blocks: np.ndarray) -> Parts:
    q = np.concatenate([blocks[:, :32] >> shift & 3 for shift in (6, 4, 2, 0)], axis=1).view(np.int8) - np.int8(1)
    return q, np.ascontiguousarray(blocks[:, 32:]).view("<f4"), None


def words(blocks: np.ndarray, kind: str) -> np.ndarray:
    """The numbers of several bytes each that lie there."""
    return np.ascontiguousarray(blocks).view(kind)


def pieces(found: np.ndarray, bits: int) -> np.ndarray:
    """The four lowest numbers of so many bits of each word, (n, 4 * words)."""
    shifts = np.arange(0, 4 * bits, bits, dtype=found.dtype)
    return np.asarray(found[..., None] >> shifts & (1 << bits) - 1).reshape(len(found), -1)


def on_grid(grid: np.ndarray, places: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The numbers of points, negative where a bit of `signs` is set."""
    numbers = grid[places].reshape(len(places), -1)
    return np.asarray(np.where(np.unpackbits(signs, axis=1, bitorder="little"), -numbers, numbers))


def eight_signs(seven: np.ndarray) -> np.ndarray:
    """The signs of eight numbers, of which an even count is set, by those of seven."""
    return np.asarray(seven | np.bitwise_count(seven) << 7, np.uint8)


def iq2_xxs(blocks: np.ndarray) -> Parts:
    groups = blocks[:, 2:].reshape(-1, 8, 8)
    places, shares = groups[..., :4].reshape(-1, 32), words(groups[..., 4:], "<u4")[..., 0]
    q = on_grid(grids.IQ2_XXS, places, eight_signs(pieces(shares, 7)))
    return q, half(blocks, 0) * ((shares >> 28) + np.float32(0.5)) / 4, None


def iq2_xs(blocks: np.ndarray) -> Parts:
    found, shares = words(blocks[:, 2:66], "<u2"), low_then_high(blocks[:, 66:], together=1, bits=4)
    q = on_grid(grids.IQ2_XS, found & 511, eight_signs(found >> 9))
    return q, half(blocks, 0) * (shares + np.float32(0.5)) / 4, None


def iq2_s(blocks: np.ndarray) -> Parts:
    high = low_then_high(blocks[:, 66:74], together=1, bits=2).astype(np.uint16)
    shares = low_then_high(blocks[:, 74:], together=1, bits=4)
    q = on_grid(grids.IQ2_S, blocks[:, 2:34] | high << 8, blocks[:, 34:66])
    return q, half(blocks, 0) * (shares + np.float32(0.5)) / 4, None


def iq3_xxs(blocks: np.ndarray) -> Parts:
    shares = words(blocks[:, 66:], "<u4")
    q = on_grid(grids.IQ3_XXS, blocks[:, 2:66], eight_signs(pieces(shares, 7)))
    return q, half(blocks, 0) * ((shares >> 28) + np.float32(0.5)) / 2, None


def iq3_s(blocks: np.ndarray) -> Parts:
    high = np.unpackbits(blocks[:, 66:74], axis=1, bitorder="little").astype(np.uint16)
    shares = low_then_high(blocks[:, 106:], together=1, bits=4)
    q = on_grid(grids.IQ3_S, blocks[:, 2:66] | high << 8, blocks[:, 74:106])
    return q, half(blocks, 0) * (2 * shares + 1), None


def shifted(places: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Eight times the numbers of points, one less where they are shifted `down`, else one more."""
    points = grids.IQ1[places].reshape(*down.shape, -1)
    return np.asarray(8 * points + np.where(down, np.int8(-1), np.int8(1))[..., None]).reshape(len(places), -1)


def iq1_s(blocks: np.ndarray) -> Parts:
    shares = words(blocks[:, 34:], "<u2")
    q = shifted(blocks[:, 2:34] | pieces(shares, 3) << 8, shares >> 15)
    return q, half(blocks, 0) * (2 * (shares >> 12 & 7) + 1) / 8, None


def iq1_m(blocks: np.ndarray) -> Parts:
    high, shares = low_then_high(blocks[:, 32:48], together=1, bits=4), words(blocks[:, 48:], "<u2")
    whole = np.bitwise_or.reduce(shares >> 12 << np.arange(0, 16, 4, dtype=np.uint16), axis=1, keepdims=True)
    q = shifted(blocks[:, :32] | (high & 7).astype(np.uint16) << 8, high >> 3)
    return q, whole.view("<f2").astype(np.float32) * (2 * pieces(shares, 3) + 1) / 8, None


def mxfp4(blocks: np.ndarray) -> Parts:
    return ELEMENTS[low_then_high(blocks[:, 1:], together=16, bits=4)], scales_of(blocks[:, :1]), None


KINDS: Mapping[int, Kind] = {
    0: Kind("F32", 1, 4),
    1: Kind("F16", 1, 2, dtype=np.dtype(np.float16)),
    2: Kind("Q4_0", 32, 18, q4_0, bits=4),
    3: Kind("Q4_1", 32, 20, q4_1),
    6: Kind("Q5_0", 32, 22, q5_0, bits=8),
    7: Kind("Q5_1", 32, 24, q5_1),
    8: Kind("Q8_0", 32, 34, q8_0, bits=8),
    10: Kind("Q2_K", 256, 84, q2_k),
    11: Kind("Q3_K", 256, 110, q3_k, bits=8),
    12: Kind("Q4_K", 256, 144, q4_k),
    13: Kind("Q5_K", 256, 176, q5_k),
    14: Kind("Q6_K", 256, 210, q6_k, bits=8),
    16: Kind("IQ2_XXS", 256, 66, iq2_xxs, bits=8),
    17: Kind("IQ2_XS", 256, 74, iq2_xs, bits=8),
    18: Kind("IQ3_XXS", 256, 98, iq3_xxs, bits=8),
    19: Kind("IQ1_S", 256, 50, iq1_s, bits=8),
    20: Kind("IQ4_NL", 32, 18, iq4_nl, bits=8),
    21: Kind("IQ3_S", 256, 110, iq3_s, bits=8),
    22: Kind("IQ2_S", 256, 82, iq2_s, bits=8),
    23: Kind("IQ4_XS", 256, 136, iq4_xs, bits=8),
    29: Kind("IQ1_M", 256, 56, iq1_m, bits=8),
    34: Kind("TQ1_0", 256, 54, tq1_0, bits=4),
    35: Kind("TQ2_0", 256, 66, tq2_0, bits=4),
    36: Kind("I2_S", 128, 32, i2_s, bits=4, tail=32),  # bitnet.cpp only
    39: Kind("MXFP4", 32, 17, mxfp4, bits=8),
    30: Kind("BF16", 1, 2, dtype=np.dtype(ml_dtypes.bfloat16)),
}
"""The supported types, by their numbers in the file."""
OTHER_KINDS = {
    9: "Q8_1", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
"""The names of other types."""
CHUNK = 1 << 18
"""Weights handled at once."""


def dequantize(kind: Kind, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Unpack a tensor with bytes `data`: block formats as float32, others as they are."""
    if not kind.unpack:
        return data.view(kind.dtype).reshape(shape)
    blocks = kind.blocks(data)
    numbers = np.empty((len(blocks), kind.block), np.float32)
    step = max(1, CHUNK // kind.block)
    with np.errstate(invalid="ignore"):  # readers refuse what is not finite, by the tensor's name
        for start in range(0, len(blocks), step):
            here = slice(start, start + step)
            q, scales, offsets = kind.unpack(blocks[here])
            groups = q.reshape(*scales.shape, -1) * scales[..., None]
            if offsets is not None:
                groups += offsets[..., None]
            numbers[here] = groups.reshape(-1, kind.block)
    return numbers.reshape(shape)


def kept(kind: Kind, data: np.ndarray, rows: int) -> Quantized:
    """The matrix without rounding, for multiplication; its kind has no offsets."""
    assert kind.unpack and kind.bits
    with np.errstate(invalid="ignore"):
        q, scales, _ = kind.unpack(kind.blocks(data))
    size, block = q.size // rows, kind.block // scales.shape[1]
    held = q.reshape(rows, size)
    return Quantized(nibbles(held) if kind.bits == 4 else held, scales.reshape(rows, -1), kind.bits, block)
