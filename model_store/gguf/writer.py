"""Write GGUF files: first the tensors, then the header before them."""

import shutil
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

import numpy as np

from backends.quantize import chunks
from model_store.gguf.reader import ALIGNMENT, ARRAY, MAGIC, NUMBERS, STRING, VERSIONS

BLOCK = 32
"""Block size of Q8_0."""
TYPES = {"F32": 0, "F16": 1, "Q8_0": 8}
"""The numbers of types that are written."""
LARGEST = {"F32": np.inf, "F16": 65504, "Q8_0": 127 * 65504}
"""The largest number of each type."""
CODES = {np.dtype(code): number for number, code in NUMBERS.items()}
Value = bool | int | float | str | list[str] | np.ndarray
"""A key's value: integers become 32 bits, fractions float32; arrays stay as they are."""


class Writer:
    """Writes a GGUF file, as a context manager; until it ends, the tensors are in a temporary file."""

    def __init__(self, path: Path):
        self.path, self.part = path, path.with_name(path.name + ".tensors")
        self.entries: list[tuple[str, tuple[int, ...], str, int]] = []
        self.data = self.part.open("wb")

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.data.close()

    def add(self, name: str, values: np.ndarray, kind: str) -> None:
        """Append a tensor; if rows do not divide into Q8_0's blocks it becomes F16, as in llama.cpp.

        Raises ValueError for numbers that are too large.
        """
        self._append(name, [values], kind)

    def stack(self, name: str, matrices: Iterable[np.ndarray], kind: str) -> None:
        """Append matrices of one shape as one tensor (count, rows, columns), with one in memory at a time."""
        self._append(name, matrices, kind, stacked=True)

    def _append(self, name: str, parts: Iterable[np.ndarray], kind: str, *, stacked: bool = False) -> None:
        start, count = self.data.tell(), 0
        for count, values in enumerate(parts, 1):  # noqa: B007 how many there were
            if kind == "Q8_0" and values.shape[-1] % BLOCK:
                kind = "F16"
            for _, rows in chunks(values.reshape(-1, values.shape[-1])):
                if np.abs(rows).max(initial=0) > LARGEST[kind]:
                    raise ValueError(f"the tensor {name} has values that {kind} cannot hold")
                self.data.write(encode(rows, kind))
        self.entries.append((name, (count, *values.shape) if stacked else values.shape, kind, start))
        self.data.write(bytes(-self.data.tell() % ALIGNMENT))

    def finish(self, metadata: Mapping[str, Value]) -> None:
        """Write the header, and the tensors after it."""
        self.data.close()
        header = MAGIC + struct.pack("<IQQ", VERSIONS[-1], len(self.entries), len(metadata))
        header += b"".join(text(key) + typed(value) for key, value in metadata.items())
        for name, shape, kind, start in self.entries:
            header += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], TYPES[kind], start)
        with self.path.open("wb") as file, self.part.open("rb") as data:
            file.write(header + bytes(-len(header) % ALIGNMENT))
            shutil.copyfileobj(data, file, 1 << 20)
        self.part.unlink()


def encode(rows: np.ndarray, kind: str) -> bytes:
    """Encode float32 rows in a type."""
    if kind == "F32":
        return rows.astype("<f4").tobytes()
    if kind == "F16":
        with np.errstate(over="ignore"):
            return rows.astype("<f2").tobytes()
    blocks = rows.reshape(-1, BLOCK)
    scales = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    inverse = np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=scales > 0)
    whole = blocks * inverse
    numbers = np.trunc(whole + np.copysign(np.float32(0.5), whole)).astype(np.int8)  # rounds halves away from zero
    return np.concatenate([scales.astype("<f2").view(np.uint8), numbers.view(np.uint8)], axis=1).tobytes()


def text(value: str) -> bytes:
    """A text with its length before it."""
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def typed(value: Value) -> bytes:
    """A key's value with its type before it."""
    match value:
        case bool():
            return struct.pack("<I?", CODES[np.dtype("?")], value)
        case int():
            return struct.pack("<II", CODES[np.dtype("<u4")], value)
        case float():
            return struct.pack("<If", CODES[np.dtype("<f4")], value)
        case str():
            return struct.pack("<I", STRING) + text(value)
        case np.ndarray():
            return struct.pack("<IIQ", ARRAY, CODES[value.dtype], len(value)) + value.tobytes()
    return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))
