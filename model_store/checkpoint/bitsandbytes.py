"""bitsandbytes' matrices: four bits that index a table, or int8 by rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from model_store.checkpoint import int8
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

PRECISION = "int8-64"
"""The suitable precision for four bits."""
REASON = "the file has nf4 or fp4, and is rounded once more here, to eight bits, by at most 1/254 of the largest of 64"
STATE = ".quant_state.bitsandbytes__"
"""The ending, before its kind, of the name of a text with a matrix's shape and blocks."""
PARTS = "absmax", "quant_map", "nested_absmax", "nested_quant_map"
ROWS, LAYOUT = "SCB", "weight_format"
"""The largest magnitude of each int8 row, and the order of rows."""


@dataclass(frozen=True)
class Nf4Tensor(Tensor):
    """A matrix (out, in), read as float32, of `codes`, the high nibble first."""

    codes: Tensor = field(kw_only=True)
    state: Mapping[str, Any] = field(kw_only=True)  # Any: JSON's
    beside: Mapping[str, Tensor] = field(kw_only=True)
    """The largest magnitude of each block and the table; and the same for the former, if they are bytes."""

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + sum(part.nbytes for part in self.beside.values())

    @property
    def told(self) -> tuple[str, str, str]:
        return PRECISION, REASON, ""

    def largest(self) -> np.ndarray:
        """The largest magnitude of each block."""
        found = self.beside["absmax"].read()
        if found.dtype != np.uint8:
            return found
        of_blocks = self.beside["nested_absmax"].read().repeat(self.state["nested_blocksize"])[: len(found)]
        centred = self.beside["nested_quant_map"].read()[found] * of_blocks
        return np.asarray(centred + np.float32(self.state["nested_offset"]))

    def read(self) -> np.ndarray:
        codes = self.codes.read().reshape(-1)
        numbers = self.beside["quant_map"].read()[np.stack([codes >> 4, codes & 15], axis=-1)].reshape(-1)[: self.size]
        each = self.largest().repeat(self.state["blocksize"])[: self.size]
        return np.asarray((numbers * each).reshape(self.shape), np.float32)


def join(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join the tensors of each matrix."""
    found = dict(tensors)
    for name, tensor in tensors.items():
        weight, state, _ = name.partition(STATE)
        stem = name.rpartition(".")[0]
        if state:
            del found[name]
            beside = {part: found.pop(f"{weight}.{part}") for part in PARTS if f"{weight}.{part}" in tensors}
            found[weight] = nf4(weight, tensors.get(weight), beside, tensor)
        elif name == f"{stem}.{ROWS}" and f"{stem}.weight" in tensors:
            del found[name]
            layout = found.pop(f"{stem}.{LAYOUT}", None)
            if layout and layout.read().any():
                raise UnsupportedCheckpoint(f"the rows of {stem}.weight are not in order ({LAYOUT}); save it again")
            found[f"{stem}.weight"] = int8.scaled(f"{stem}.weight", tensors[f"{stem}.weight"], tensor, 1 / 127)
    return found


def nf4(name: str, codes: Tensor | None, beside: dict[str, Tensor], text: Tensor) -> Tensor:
    """The matrix `name`, in the blocks that the text describes."""
    try:
        state = json.loads(text.read().tobytes())
        shape, block, inner = tuple(state["shape"]), state["blocksize"], state.get("nested_blocksize", 0)
        numbers = [*shape, block, inner]
        whole = len(shape) == 2 and all(type(number) is int and 0 <= number < 1 << 31 for number in numbers)
        size = shape[0] * shape[1]
        blocks = -(-size // block)
        expected = {"absmax": blocks, "quant_map": 16}
        if beside["absmax"].dtype == np.uint8:
            expected |= {"nested_absmax": -(-blocks // inner), "nested_quant_map": 256}
            whole = whole and isinstance(state["nested_offset"], int | float)
        fit = all(beside[part].size == count for part, count in expected.items())
        if not whole or not fit or codes is None or codes.dtype != np.uint8 or codes.size != -(-size // 2):
            raise ValueError("their sizes differ")
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, RecursionError) as error:
        says = f"the tensors {name} and {name}{STATE}... do not fit each other ({error})"
        raise UnsupportedCheckpoint(f"{says}; download them again") from error
    place = codes.path, codes.modified, codes.start
    return Nf4Tensor(*place, np.dtype(np.float32), shape, codes=codes, state=state, beside=beside)
