"""fp8 matrices with scales: one for all, one per row, or one per tile, as DeepSeek has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

import ml_dtypes
import numpy as np

from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

DTYPES = {"F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn), "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2)}
"""The types of the numbers."""
SCALES = "_scale_inv", "_scale"
"""Endings of the names of scales; those of both kinds multiply."""
TILE = (128, 128)
"""Rows and columns per scale if config.json does not say."""


@dataclass(frozen=True)
class Fp8Tensor(Tensor):
    """One matrix (..., out, in) or several, read as float32; each `tile` (rows, columns) shares a scale."""

    numbers: Tensor = field(kw_only=True)
    scales: Tensor = field(kw_only=True)
    tile: tuple[int, int] = field(kw_only=True)

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.scales.nbytes

    @property
    def parts(self) -> list[Tensor]:
        pairs = zip(self.numbers.parts, self.scales.parts, strict=True)
        return [scaled(*pair, self.tile) for pair in pairs]

    def read(self) -> np.ndarray:
        values, scales = self.numbers.read().astype(np.float32), self.scales.read().astype(np.float32)
        if scales.size > 1:
            rows, columns = self.tile
            scales = scales.reshape(*self.shape[:-2], ceil(self.shape[-2] / rows), -1)
            scales = scales.repeat(rows, -2)[..., : self.shape[-2], :]
            for place in range(scales.shape[-1]):  # by rows of tiles, so that scales need little memory
                values[..., place * columns : (place + 1) * columns] *= scales[..., place : place + 1]
            return values
        values *= scales.reshape(())
        return values


def scaled(numbers: Tensor, scales: Tensor, tile: tuple[int, int]) -> Tensor:
    """Join two tensors to a matrix."""
    place = numbers.path, numbers.modified, numbers.start
    return Fp8Tensor(*place, np.dtype(np.float32), numbers.shape, numbers=numbers, scales=scales, tile=tile)


def join(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:  # Any: config.json's
    """Join each fp8 matrix and its scales."""
    found = dict(tensors)
    tile = tile_of(config)
    for name, numbers in tensors.items():
        scales = next((tensors[name + end] for end in SCALES if name + end in tensors), None)
        if numbers.dtype not in DTYPES.values() or scales is None:
            continue
        for end in SCALES:
            found.pop(name + end, None)
        shared = shared_by(scales.shape, numbers.shape, tile) if len(numbers.shape) > 1 else None
        if shared is None or scales.dtype.itemsize > 4:
            says = f"the tensors {name} {numbers.shape} and their scales {scales.shape} do not fit each other"
            raise UnsupportedCheckpoint(f"{says} (tiles of {tile[0]} x {tile[1]}); download them again")
        found[name] = scaled(numbers, scales, shared)
    return found


def shared_by(scales: tuple[int, ...], shape: tuple[int, ...], tile: tuple[int, int]) -> tuple[int, int] | None:
    """How many rows and columns of a matrix share a scale; None if the shapes do not fit."""
    *outer, rows, columns = shape
    if scales == (*outer, ceil(rows / tile[0]), ceil(columns / tile[1])):
        return tile
    each = {prod([*outer, rows]): (1, columns), prod(outer): (rows, columns)}
    return each.get(prod(scales))


def tile_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """How many rows and columns share a scale, if config.json says so."""
    quantization = config.get("quantization_config") or {}
    groups = quantization["config_groups"] if quantization.get("quant_method") == "compressed-tensors" else {}
    said = [quantization.get("weight_block_size"), *(one["weights"].get("block_structure") for one in groups.values())]
    rows, columns = next(filter(None, said), TILE)
    return rows, columns
