"""A tensor in a file, whose numbers are read when they are asked for."""

import os
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from backends.decoder import Quantized
from model_store.errors import StoreError

LARGEST = 1 << 63
"""More than any size of a tensor."""


@dataclass(frozen=True)
class Tensor:
    """Where numbers lie. They are read and not mapped: pages of a mapped file count as this process's memory."""

    path: Path
    modified: int
    """When the file was last written, in nanoseconds, as it was when this was found."""
    start: int
    """The first number's place in the file, in bytes."""
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    """From one element to the next of each dimension, in numbers; None: without gaps, the last dimension first."""

    @property
    def told(self) -> tuple[str, str, str]:
        """The precision that suits a rounded matrix, why, and at which it is kept as it is; empty for others."""
        return "", "", ""

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers."""
        return self.size * self.dtype.itemsize

    @property
    def parts(self) -> "list[Tensor]":
        """The tensors of which this one is a list: one for each index of its first dimension."""
        count, *shape = self.shape
        stride = self.strides[0] if self.strides else prod(shape)
        strides = self.strides[1:] if self.strides else None
        starts = (self.start + i * self.stored_size(stride) for i in range(count))
        return [replace(self, start=start, shape=tuple(shape), strides=strides) for start in starts]

    def stored_size(self, count: int) -> int:
        """Bytes that so many numbers take in the file."""
        return count * self.dtype.itemsize

    def read(self) -> np.ndarray:
        """The numbers, in memory of their own."""
        strides = self.strides
        count = self.size
        if strides is not None and count:
            count = 1 + sum((size - 1) * stride for size, stride in zip(self.shape, strides, strict=True))
        values = np.empty(count, self.dtype)
        try:
            with self.path.open("rb") as file:
                file.seek(self.start)
                found = file.readinto(values.view(np.uint8).data)
                changed = os.fstat(file.fileno()).st_mtime_ns != self.modified
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror}; check the file") from error
        if changed or found != values.nbytes:
            raise StoreError(f"{self.path} was changed while it was read; try again when it is complete")
        if strides is None:
            return values.reshape(self.shape)
        return np.lib.stride_tricks.as_strided(values, self.shape, [s * values.itemsize for s in strides])

    def quantized(self) -> Quantized | None:
        """The same matrix (out, in) as integers, exactly; None where it is none."""
        return None

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.read(), dtype)


@dataclass(frozen=True)
class Told(Tensor):
    """A tensor whose numbers are here, and in no file."""

    numbers: Any = None  # Any: an array or a tuple

    def read(self) -> np.ndarray:
        return np.asarray(self.numbers, np.float32)
