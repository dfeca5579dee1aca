"""A tensor in a file, whose numbers are read when needed."""

import os
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from backends.decoder import Quantized
from model_store.errors import StoreError

LARGEST = 1 << 63
"""Larger than any tensor."""


@dataclass(frozen=True)
class Tensor:
    """A place in a file; numbers are read, not mapped, as mapped pages count as this process's memory."""

    path: Path
    modified: int
    """The file's time of modification in nanoseconds, when this was found."""
    start: int
    """The offset of the first number, in bytes."""
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    """The strides, in numbers; None: contiguous, in C order."""

    @property
    def told(self) -> tuple[str, str, str]:
        """For a rounded matrix: the suitable precision, why, and the exact one; "" for others."""
        return "", "", ""

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its numbers."""
        return self.size * self.dtype.itemsize

    @property
    def parts(self) -> "list[Tensor]":
        """The tensors along its first axis."""
        count, *shape = self.shape
        stride = self.strides[0] if self.strides else prod(shape)
        strides = self.strides[1:] if self.strides else None
        starts = (self.start + i * self.stored_size(stride) for i in range(count))
        return [replace(self, start=start, shape=tuple(shape), strides=strides) for start in starts]

    def stored_size(self, count: int) -> int:
        """Bytes of that many numbers in the file."""
        return count * self.dtype.itemsize

    def read(self) -> np.ndarray:
        """Read the numbers into new memory."""
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
        """The matrix (out, in) as integers, exactly; None if it is not rounded."""
        return None

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.read(), dtype)


@dataclass(frozen=True)
class Told(Tensor):
    """A tensor with numbers in memory, in no file."""

    numbers: Any = None  # Any: an array or a tuple

    def read(self) -> np.ndarray:
        return np.asarray(self.numbers, np.float32)
