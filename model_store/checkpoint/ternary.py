"""Ternary matrices, -1, 0 and 1 times one scale: BitNet b1.58, packed as published, or rounded while read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import numpy as np

from backends.decoder import Quantized
from backends.quantize import LEAST
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint, shown

PRECISION = "int4"
"""The precision that keeps these matrices as they are, at half as much memory again."""
REASON = "the file has weights of -1, 0 and 1, which are kept as they are; of the others, 4 bits are kept"
BLOCK = 128
"""Largest block at this precision."""
SCALE = "_scale"
"""The ending of the name of a matrix's scale."""
KIND = "bitnet"
"""The `quant_method` of such checkpoints."""
MULTIPLIED = "autobitlinear"
"""The `linear_class` of matrices that are multiplied by their scale; other classes divide."""
MODES = "offline", "online"
"""Matrices are packed, or in bfloat16."""
WANTED: dict[str, Sequence[object]] = {
    "linear_class": (MULTIPLIED, "bitlinear", None), "quantization_mode": (*MODES, None), "use_rms_norm": (False, None),
}  # fmt: skip
"""The values that config.json may have for matrices; None: missing."""
ALL: dict[str, Sequence[object]] = {"linear_class": (MULTIPLIED,), "modules_to_not_convert": (["lm_head"], None)}
"""The further values if they are rounded here."""


def fits(kind: str, quantization: object) -> bool:
    """Whether a quantization_config says what is read here; raises for another kind of BitNet."""
    if not isinstance(quantization, dict) or quantization.get("quant_method") != KIND:
        return False
    wanted = WANTED if quantization.get("quantization_mode") != MODES[1] else WANTED | ALL
    for name, values in wanted.items():
        if (stated := quantization.get(name)) not in values:
            raise UnsupportedCheckpoint(
                f"{name} (quantization_config in config.json) is {shown(stated)}, and only"
                f" {' or '.join(map(repr, values))} is read here; use microsoft/bitnet-b1.58-2B-4T"
            )
    return True


@dataclass(frozen=True)
class TernaryTensor(Tensor):
    """A matrix (out, in) of `stored` (out / 4, in), whose bytes' lowest bits are the first rows."""

    stored: Tensor = field(kw_only=True)
    scale: Tensor | None = field(kw_only=True)
    """None: `stored` is floats (out, in), and their mean magnitude is the scale."""
    divides: bool = field(kw_only=True)
    """Whether numbers are divided by the scale."""

    @property
    def told(self) -> tuple[str, str, str]:
        return PRECISION, REASON, PRECISION

    @property
    def nbytes(self) -> int:
        return self.stored.nbytes + (self.scale.nbytes if self.scale else 0)

    def halves(self) -> tuple[np.ndarray, np.float32]:
        """The numbers plus 1, and the scale."""
        stored = self.stored.read()
        if self.scale is None:
            values = np.asarray(stored, np.float32)
            mean = max(np.abs(values).mean(), np.float32(1e-5))
            numbers = np.clip(np.rint(values / mean), -1, 1) + 1
            return numbers.astype(np.uint8), np.float32(mean.astype(stored.dtype))
        numbers = np.concatenate([stored >> shift & 3 for shift in (0, 2, 4, 6)])
        if (numbers == 3).any():
            says = f"a tensor of {self.path} has numbers that are none of -1, 0 and 1"
            raise UnsupportedCheckpoint(f"{says}; download the file again")
        scale = np.float32(self.scale.read().item())
        return numbers, 1 / scale if self.divides else scale

    def read(self) -> np.ndarray:
        numbers, scale = self.halves()
        return np.asarray((numbers.astype(np.float32) - 1) * scale)

    def quantized(self) -> Quantized | None:
        """The matrix, exactly; None if no block size divides its rows."""
        block = gcd(self.shape[1], BLOCK)
        if block < LEAST:
            return None
        numbers, scale = self.halves()
        nibbles = numbers + np.uint8(7)
        scales = np.full((self.shape[0], self.shape[1] // block), scale, np.float32)
        return Quantized(nibbles[:, ::2] | nibbles[:, 1::2] << 4, scales, 4, block)


def join(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:  # Any: config.json's
    """Join each matrix and its scale, if there are any."""
    found = dict(tensors)
    quantization = config.get("quantization_config") or {}
    if quantization.get("quant_method") != KIND:
        return found
    online, divides = quantization.get("quantization_mode") == MODES[1], quantization.get("linear_class") != MULTIPLIED
    for name, stored in tensors.items():
        place, dtype = (stored.path, stored.modified, stored.start), np.dtype(np.float32)
        if online and name.endswith("_proj.weight") and stored.dtype.kind not in "iu":
            found[name] = TernaryTensor(*place, dtype, stored.shape, stored=stored, scale=None, divides=False)
        if online or stored.dtype != np.uint8:
            continue
        scale = found.pop(name + SCALE, None)
        if scale is None or len(stored.shape) != 2 or prod(scale.shape) != 1 or scale.dtype == np.uint8:
            told = "missing" if scale is None else scale.shape
            says = f"the tensors {name} {stored.shape} and {name + SCALE} ({told}) do not fit each other"
            raise UnsupportedCheckpoint(f"{says}; download them again")
        shape = 4 * stored.shape[0], stored.shape[1]
        found[name] = TernaryTensor(*place, dtype, shape, stored=stored, scale=scale, divides=divides)
    return found
