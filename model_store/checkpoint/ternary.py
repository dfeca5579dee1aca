"""Matrices of -1, 0 and 1 times one scale, four of these numbers in a byte: BitNet b1.58, as it is published."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import numpy as np

from backends.decoder import Quantized
from backends.quantize import LEAST
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint, shown

PRECISION = "int4"
"""What keeps matrices of these as they are, and is half as much again as they take."""
REASON = "the file has weights of -1, 0 and 1, which are kept as they are; of the others, 4 bits are kept"
BLOCK = 128
"""Neighbours that share a scale at this precision, at most."""
SCALE = "_scale"
"""How the name of the scale ends that belongs to a matrix."""
KIND = "bitnet"
"""The `model_type`, and the `quant_method`, of such checkpoints."""
WANTED = {"quant_method": KIND, "linear_class": "autobitlinear", "quantization_mode": "offline"}
"""What config.json says of matrices that are multiplied by their scale, and in bytes."""


def fits(kind: str, quantization: object) -> bool:
    """Whether a model's quantization_config says what is read here; raises where it asks for another kind of BitNet."""
    if kind != KIND or not isinstance(quantization, dict) or quantization.get("quant_method") != KIND:
        return False
    for name, value in {**WANTED, "use_rms_norm": False}.items():
        if (stated := quantization.get(name, False)) != value:
            raise UnsupportedCheckpoint(
                f"{name} (quantization_config in config.json) is {shown(stated)}, and only {value!r} is read here; take"
                " microsoft/bitnet-b1.58-2B-4T, whose weights are packed"
            )
    return True


@dataclass(frozen=True)
class TernaryTensor(Tensor):
    """A matrix (out, in) of `packed` (out / 4, in), of whose bytes the lowest bits are of the first rows."""

    packed: Tensor = field(kw_only=True)
    scale: Tensor = field(kw_only=True)

    @property
    def told(self) -> tuple[str, str, str]:
        return PRECISION, REASON, PRECISION

    @property
    def nbytes(self) -> int:
        return self.packed.nbytes + self.scale.nbytes

    def numbers(self) -> np.ndarray:
        """The numbers, each one more than it is."""
        packed = self.packed.read()
        numbers = np.concatenate([packed >> shift & 3 for shift in (0, 2, 4, 6)])
        if (numbers == 3).any():
            says = f"a tensor of {self.path} has numbers that are none of -1, 0 and 1"
            raise UnsupportedCheckpoint(f"{says}; download the file again")
        return numbers

    def read(self) -> np.ndarray:
        return np.asarray((self.numbers().astype(np.float32) - 1) * self.scale.read().astype(np.float32).reshape(()))

    def quantized(self) -> Quantized | None:
        """The matrix, exactly; None where no block divides its rows."""
        block = gcd(self.shape[1], BLOCK)
        if block < LEAST:
            return None
        nibbles = self.numbers() + np.uint8(7)
        scales = np.full((self.shape[0], self.shape[1] // block), self.scale.read().reshape(()), np.float32)
        return Quantized(nibbles[:, ::2] | nibbles[:, 1::2] << 4, scales, 4, block)


def join(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:  # Any: config.json's
    """The same tensors, each matrix of bytes and its scale as one, where there are such."""
    found = dict(tensors)
    for name, packed in tensors.items() if config.get("model_type") == KIND else ():
        if packed.dtype != np.uint8:
            continue
        scale = found.pop(name + SCALE, None)
        if scale is None or len(packed.shape) != 2 or prod(scale.shape) != 1 or scale.dtype == np.uint8:
            told = "missing" if scale is None else scale.shape
            says = f"the tensors {name} {packed.shape} and {name + SCALE} ({told}) do not fit each other"
            raise UnsupportedCheckpoint(f"{says}; download them again")
        place, shape = (packed.path, packed.modified, packed.start), (4 * packed.shape[0], packed.shape[1])
        found[name] = TernaryTensor(*place, np.dtype(np.float32), shape, packed=packed, scale=scale)
    return found
