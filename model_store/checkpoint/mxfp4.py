"""gpt-oss's mxfp4 matrices: blocks of 32 four-bit numbers with a power of two as scale.

OCP Microscaling Formats specification 1.0: elements are E2M1, scales E8M0, where 255 is NaN.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from backends.decoder import Quantized
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

BLOCK = 32
PRECISION, EXACT = "int4-32", "int8-32"
"""The suitable precision, and the one that keeps them exactly."""
REASON = (
    "the file has mxfp4, which is rounded once more here, by 7 % of the weights on average; int8-32 keeps it as it is"
    " in twice the memory"
)
ELEMENTS = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
"""Twice the values of four bits, which makes them whole numbers."""
KINDS = "_blocks", "_scales"
"""Endings of the names of a matrix's two tensors."""


def scales_of(exponents: np.ndarray) -> np.ndarray:
    """The scales for `ELEMENTS`, float32, from the file's bytes."""
    scales = np.ldexp(np.float32(1), exponents.astype(np.int32) - 128)
    return np.asarray(np.where(exponents == 255, np.float32(np.nan), scales))


@dataclass(frozen=True)
class Mxfp4Tensor(Tensor):
    """Matrices (..., in, out), like unrounded ones, of `blocks` (..., out, in / 32, 16)."""

    blocks: Tensor = field(kw_only=True)
    scales: Tensor = field(kw_only=True)

    @property
    def told(self) -> tuple[str, str, str]:
        return PRECISION, REASON, EXACT

    @property
    def nbytes(self) -> int:
        return self.blocks.nbytes + self.scales.nbytes

    @property
    def parts(self) -> list[Tensor]:
        return [paired(*both) for both in zip(self.blocks.parts, self.scales.parts, strict=True)]

    def read(self) -> np.ndarray:
        codes, scales = self.blocks.read(), scales_of(self.scales.read())
        numbers = ELEMENTS[np.stack([codes & 15, codes >> 4], axis=-1)].reshape(*scales.shape, BLOCK)
        with np.errstate(invalid="ignore", over="ignore"):  # readers refuse what is not finite
            values = numbers * scales[..., None]
        return np.asarray(values.reshape(*scales.shape[:-1], -1).swapaxes(-1, -2))

    def quantized(self) -> Quantized:
        """One matrix (out, in), exactly."""
        codes, scales = self.blocks.read(), scales_of(self.scales.read())
        numbers = ELEMENTS[np.stack([codes & 15, codes >> 4], axis=-1)]
        return Quantized(numbers.reshape(len(scales), -1), scales, 8, BLOCK)


def paired(blocks: Tensor, scales: Tensor) -> Tensor:
    """Join two tensors to matrices."""
    *outer, rows, columns = scales.shape
    shape = *outer, columns * BLOCK, rows
    place = blocks.path, blocks.modified, blocks.start
    return Mxfp4Tensor(*place, np.dtype(np.float32), shape, blocks=blocks, scales=scales)


def join(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join each pair of blocks and scales; no other byte tensors are left."""
    found = {name: tensor for name, tensor in tensors.items() if tensor.dtype != np.uint8}
    for name in tensors.keys() - found.keys():
        stem = name.removesuffix(KINDS[0]).removesuffix(KINDS[1])
        if stem == name or stem in found:
            continue
        pair = [stem + kind for kind in KINDS]
        if missing := [one for one in pair if one not in tensors]:
            raise UnsupportedCheckpoint(f"the tensor {name} stands alone: {missing[0]} is missing; download it again")
        blocks, scales = (tensors[one] for one in pair)
        if len(scales.shape) < 2 or blocks.shape != (*scales.shape, BLOCK // 2) or blocks.dtype != scales.dtype:
            says = f"the tensors {pair[0]} {blocks.shape} and {pair[1]} {scales.shape} do not fit each other"
            raise UnsupportedCheckpoint(f"{says}; download them again")
        found[stem] = paired(blocks, scales)
    return found
