"""int8 matrices with a scale per row (compressed-tensors' `int-quantized`), as precision `int8` uses them.

The built-in model is shipped so; other models call it W8A8.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backends.decoder import Quantized
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

PRECISION, REASON = "int8", "the file has int8 with a scale for each row, which is kept as it is"
SCALE = "_scale"
"""The ending of the name of a matrix's scales."""
CONFIG: Mapping[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "dequantize": True,
    "config_groups": {
        "rows": {
            "targets": ["Linear", "Embedding"],
            "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"},
        }
    },
}
"""The built-in model's fields in config.json, with which transformers reads it by compressed-tensors, as floats."""


@dataclass(frozen=True)
class Int8Tensor(Tensor):
    """A matrix (out, in), read as float32."""

    numbers: Tensor = field(kw_only=True)
    scales: Tensor = field(kw_only=True)
    factor: float = field(kw_only=True)
    """Factor of the scales."""

    @property
    def told(self) -> tuple[str, str, str]:
        return PRECISION, REASON, PRECISION

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.scales.nbytes

    def read(self) -> np.ndarray:
        held = self.quantized()
        return np.asarray(held.values * held.scales)

    def quantized(self) -> Quantized:
        """The matrix, exactly."""
        scales = self.scales.read().astype(np.float32).reshape(-1, 1) * np.float32(self.factor)
        return Quantized(self.numbers.read(), scales, 8, self.shape[1])


def join(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join each int8 matrix and its scales; no other integer tensors are left."""
    found = dict(tensors)
    for name, numbers in tensors.items():
        if numbers.dtype != np.int8:
            continue
        del found[name]
        if (scales := found.pop(name + SCALE, None)) is None:
            continue
        found[name] = scaled(name, numbers, scales, 1)
    return found


def scaled(name: str, numbers: Tensor, scales: Tensor, factor: float) -> Tensor:
    """Join two tensors to the matrix `name`, one of them in units of `factor`."""
    rows = numbers.shape[:1]
    if len(numbers.shape) != 2 or scales.shape not in (rows, (*rows, 1)) or scales.dtype.kind in "iu":
        says = f"the tensors {name} {numbers.shape} and {name + SCALE} {scales.shape} do not fit each other"
        raise UnsupportedCheckpoint(f"{says}; download them again")
    place, dtype = (numbers.path, numbers.modified, numbers.start), np.dtype(np.float32)
    return Int8Tensor(*place, dtype, numbers.shape, numbers=numbers, scales=scales, factor=factor)
