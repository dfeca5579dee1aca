"""Read pytorch_model.bin without torch, and without executing anything: only the names that tensors need exist.

The format is a zip archive, not compressed, of a pickle and the bytes of each storage
(https://pytorch.org/docs/stable/notes/serialization.html).
"""

import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from model_store.errors import UnsupportedCheckpoint
from model_store.tensor import Tensor

STORAGES = {
    "FloatStorage": np.dtype(np.float32),
    "HalfStorage": np.dtype(np.float16),
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "DoubleStorage": np.dtype(np.float64),
    "LongStorage": np.dtype(np.int64),
    "IntStorage": np.dtype(np.int32),
    "ShortStorage": np.dtype(np.int16),
    "CharStorage": np.dtype(np.int8),
    "ByteStorage": np.dtype(np.uint8),
    "BoolStorage": np.dtype(np.bool_),
}
PICKLE_LIMIT = 100_000_000
"""Bytes; a pickle of names and shapes is far smaller."""


def tensors(path: Path) -> dict[str, Tensor]:
    """The floating-point tensors of one file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return read(path, archive)
    except zipfile.BadZipFile as error:
        raise UnsupportedCheckpoint(
            f"{path} is damaged, or older than PyTorch 1.6 ({error}); convert the checkpoint to safetensors"
        ) from error


def read(path: Path, archive: zipfile.ZipFile) -> dict[str, Tensor]:
    """The tensors of an archive that is open."""
    entries = {entry.filename: entry for entry in archive.infolist()}
    found = [name for name in entries if name.endswith("/data.pkl")]
    if len(found) != 1 or entries[found[0]].file_size > PICKLE_LIMIT:
        raise UnsupportedCheckpoint(f"{path} is not a file of PyTorch weights: it should hold one data.pkl")
    root = found[0].removesuffix("data.pkl")
    if root + "byteorder" in entries and archive.read(root + "byteorder") != b"little":
        raise UnsupportedCheckpoint(f"{path} holds big-endian numbers; convert the checkpoint to safetensors")
    with archive.open(found[0]) as file, path.open("rb") as content:
        try:
            state = Unpickler(file, content, entries, root).load()
        except UnsupportedCheckpoint as error:
            raise UnsupportedCheckpoint(f"{path}: {error}") from error
        except Exception as error:  # whatever a damaged or hostile pickle makes of itself
            raise UnsupportedCheckpoint(f"{path} is damaged: its pickle cannot be read ({error})") from error
    if not isinstance(state, dict):
        raise UnsupportedCheckpoint(f"{path} holds a {type(state).__name__} and not tensors by name")
    found_tensors = {str(name): value for name, value in state.items() if isinstance(value, Tensor)}
    return {name: value for name, value in found_tensors.items() if value.dtype.kind in "fV"}  # V: bfloat16


class Unpickler(pickle.Unpickler):
    """Finds where numbers lie when the pickle asks for tensors, and refuses every other name."""

    def __init__(self, pickled: Any, content: BinaryIO, entries: dict[str, zipfile.ZipInfo], root: str):
        super().__init__(pickled)  # Any: what zipfile opens is readable and no BinaryIO
        self.content, self.entries, self.root = content, entries, root

    def find_class(self, module: str, name: str) -> Callable[..., object] | str:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils" and name == "_rebuild_tensor_v2":
            return view
        if module == "torch._utils" and name == "_rebuild_parameter":
            return parameter
        if module == "torch" and name in STORAGES:
            return name
        raise UnsupportedCheckpoint(
            f"its pickle asks for {module}.{name}, which no weights need; do not trust this file"
        )

    def persistent_load(self, reference: tuple[str, str, str, str, int]) -> Tensor:
        """The numbers of one storage."""
        _, storage, key, _, count = reference
        entry, dtype = self.entries[f"{self.root}data/{key}"], STORAGES[storage]
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != count * dtype.itemsize:
            raise UnsupportedCheckpoint(f"its storage {key} should be {count} numbers of {dtype} and is not")
        self.content.seek(entry.header_offset + 26)
        name, extra = struct.unpack("<HH", self.content.read(4))
        start = entry.header_offset + 30 + name + extra
        file = os.fstat(self.content.fileno())
        if start + entry.file_size > file.st_size:
            raise UnsupportedCheckpoint(f"its storage {key} ends beyond the file")
        return Tensor(Path(self.content.name), file.st_mtime_ns, start, dtype, (count,))


def view(storage: Tensor, offset: int, shape: Sequence[int], strides: Sequence[int], *_: object) -> Tensor:
    """A tensor: numbers of a storage, after checking that they lie within it."""
    numbers = [offset, *shape, *strides]
    if len(shape) != len(strides) or any(type(number) is not int or number < 0 for number in numbers):
        raise UnsupportedCheckpoint(f"a tensor has the shape {shape} and the strides {strides}")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= storage.size:
        raise UnsupportedCheckpoint(f"a tensor of shape {shape} ends beyond its storage")
    start = storage.start + offset * storage.dtype.itemsize
    return replace(storage, start=start, shape=tuple(shape), strides=tuple(strides))


def parameter(tensor: Tensor, *_: object) -> Tensor:
    """A parameter is its tensor."""
    return tensor
