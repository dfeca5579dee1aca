"""Matrices in eight bits with a scale for each row, as the built-in model is shipped: what `int8` computes with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backends.decoder import Quantized
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

PRECISION, REASON = "int8", "the file has int8 with a scale for each row, which is kept as it is"
SCALE = "_scale"
"""How the name of the scales ends that belong to a matrix."""
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
"""What config.json says of such matrices, by which transformers reads them with compressed-tensors, as floats."""


@dataclass(frozen=True)
class Int8Tensor(Tensor):
    """A matrix (out, in), which reads as float32."""

    numbers: Tensor = field(kw_only=True)
    scales: Tensor = field(kw_only=True)

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.scales.nbytes

    def read(self) -> np.ndarray:
        return np.asarray(self.numbers.read() * self.scales.read().astype(np.float32))

    def quantized(self) -> Quantized:
        """The matrix, exactly."""
        return Quantized(self.numbers.read(), self.scales.read().astype(np.float32), 8, self.shape[1])


def join(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, each matrix of integers and its scales as one, and no others of integers."""
    found = dict(tensors)
    for name, numbers in tensors.items():
        if numbers.dtype != np.int8:
            continue
        del found[name]
        if (scales := found.pop(name + SCALE, None)) is None:
            continue
        if len(numbers.shape) != 2 or scales.shape != (numbers.shape[0], 1) or scales.dtype == np.int8:
            says = f"the tensors {name} {numbers.shape} and {name + SCALE} {scales.shape} do not fit each other"
            raise UnsupportedCheckpoint(f"{says}; download them again")
        place = numbers.path, numbers.modified, numbers.start
        found[name] = Int8Tensor(*place, np.dtype(np.float32), numbers.shape, numbers=numbers, scales=scales)
    return found
