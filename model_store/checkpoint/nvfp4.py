"""NVFP4 matrices: blocks of 16 four-bit numbers with an fp8 scale, and one scale for all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from backends.decoder import Quantized
from model_store.checkpoint.mxfp4 import ELEMENTS
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

BLOCK = 16
PRECISION, EXACT = "int4-32", "int8-32"
"""The suitable precision, and the one that keeps them exactly."""
REASON = "the file has NVFP4, which is rounded once more here; int8-32 keeps it as it is in twice the memory"
KINDS = (("_packed", "_global_scale"), ("", "_scale_2"))
"""Endings of the names of the bytes and the global scale: compressed-tensors divides by it, ModelOpt multiplies."""
SCALES = "_scale"
"""The ending of the name of the blocks' scales."""


@dataclass(frozen=True)
class Nvfp4Tensor(Tensor):
    """A matrix (out, in), read as float32, of `codes` (out, in / 2), the low nibble first."""

    codes: Tensor = field(kw_only=True)
    scales: Tensor = field(kw_only=True)
    whole: Tensor = field(kw_only=True)
    divides: bool = field(kw_only=True)
    """Whether the global scale divides."""

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes

    @property
    def told(self) -> tuple[str, str, str]:
        return PRECISION, REASON, EXACT

    def read(self) -> np.ndarray:
        held = self.quantized()
        blocks = held.values.reshape(*held.scales.shape, BLOCK) * held.scales[..., None]
        return np.asarray(blocks.reshape(self.shape))

    def quantized(self) -> Quantized:
        """The matrix, exactly."""
        codes, whole = self.codes.read(), self.whole.read().astype(np.float32).reshape(())
        scales = self.scales.read().astype(np.float32) / 2
        with np.errstate(divide="ignore", invalid="ignore"):  # readers refuse what is not finite
            scales = np.asarray(scales / whole if self.divides else scales * whole, np.float32)
        numbers = ELEMENTS[np.stack([codes & 15, codes >> 4], axis=-1)]
        return Quantized(numbers.reshape(self.shape), scales, 8, BLOCK)


def join(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join the tensors of each matrix."""
    found = dict(tensors)
    for name, codes in tensors.items():
        for end, scale in KINDS:
            stem = name.removesuffix(end)
            whole, scales = tensors.get(stem + scale), tensors.get(stem + SCALES)
            packed = codes.dtype == np.uint8 and len(codes.shape) == 2 and name.endswith(end)
            if not packed or whole is None or scales is None:
                continue
            shape = codes.shape[0], 2 * codes.shape[1]
            fit = scales.shape == (shape[0], shape[1] / BLOCK) and whole.size == 1
            if not fit or scales.dtype != ml_dtypes.float8_e4m3fn:
                says = f"the tensors {name} {codes.shape} and {stem + SCALES} {scales.shape} do not fit each other"
                raise UnsupportedCheckpoint(f"{says}; download them again")
            for used in name, stem + scale, stem + SCALES:
                del found[used]
            found[stem] = Nvfp4Tensor(
                codes.path, codes.modified, codes.start, np.dtype(np.float32), shape,
                codes=codes, scales=scales, whole=whole, divides=end != "",
            )  # fmt: skip
            break
    return found
