"""Matrices in eight bits with a scale for each row (compressed-tensors' `int-quantized`): what `int8` computes with.

The built-in model is shipped so; of others, it is known as W8A8.
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
"""What config.json says of the built-in model, by which transformers reads it with compressed-tensors, as floats."""

WEIGHTS: dict[str, Any] = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}
ACTIVATIONS: dict[str, Any] = WEIGHTS | {"strategy": "token", "dynamic": True}
"""Each token's are rounded as they come, as here."""
UNUSED: dict[str, Any] = dict.fromkeys(("actorder", "block_structure", "group_size", "scale_dtype", "zp_dtype"))
MAKING = {"observer", "observer_kwargs"}
"""How scales were found, which reading does not ask."""
ELSEWHERE: dict[str, Any] = {"kv_cache_scheme": None, "sparsity_config": {}, "transform_config": {}}
"""Fields for what else may be done to a model, when nothing is."""
ANY = {
    "config_groups", "dequantize", "global_compression_ratio", "ignore", "quant_method", "quantization_status",
    "version",
}  # fmt: skip
"""Fields that change nothing of what is read: tensors tell which of them are rounded."""


def fits(quantization: object) -> bool:
    """Whether a quantization_config says what is read here, and nothing else."""
    if not isinstance(quantization, dict) or quantization.get("quant_method") != "compressed-tensors":
        return False
    groups = quantization.get("config_groups")
    stated = {name: value for name, value in quantization.items() if name not in ANY}
    return (
        ELSEWHERE | stated == ELSEWHERE | {"format": "int-quantized"}
        and isinstance(groups, dict)
        and bool(groups)
        and all(isinstance(group, dict) and fits_group(group) for group in groups.values())
    )


def fits_group(group: Mapping[str, Any]) -> bool:
    """Whether some of the matrices are rounded as is read here."""
    asked = {name: value for name, value in group.items() if name not in ("targets", "format")}
    activations = asked.pop("input_activations", None)
    return (
        group.get("format") in (None, "int-quantized")
        and is_scheme(asked.pop("weights", None), WEIGHTS, {"dynamic": False})
        and (activations is None or is_scheme(activations, ACTIVATIONS, {}))
        and not any(asked.values())
    )


def is_scheme(stated: object, wanted: dict[str, Any], usual: dict[str, Any]) -> bool:
    """Whether a scheme of rounding is the one wanted."""
    if not isinstance(stated, dict):
        return False
    found = UNUSED | usual | {name: value for name, value in stated.items() if name not in MAKING}
    return found == UNUSED | usual | wanted


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
