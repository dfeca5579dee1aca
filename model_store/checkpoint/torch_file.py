"""Read pytorch_model.bin without torch, and without executing anything: only what tensors need can be called.

The format is an uncompressed zip archive of a pickle and each storage's bytes
(https://pytorch.org/docs/stable/notes/serialization.html).
"""

import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from model_store.checkpoint.tensor import LARGEST, Tensor
from model_store.errors import UnsupportedCheckpoint, shown
from model_store.files import refuse_pointer

UNUSED = {pickle.DICT, pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET, pickle.NEWOBJ, pickle.NEWOBJ_EX}
UNUSED |= {pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER}
"""Opcodes that pickles of tensors never have."""
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
PICKLE_LIMIT = 4_000_000
"""Largest pickle in bytes; one of twenty thousand names and shapes is smaller."""


def tensors(path: Path) -> dict[str, Tensor]:
    """The floating-point tensors of a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return read(path, archive)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error) as error:
        refuse_pointer(path)
        raise UnsupportedCheckpoint(
            f"{path} is damaged, or older than PyTorch 1.6 ({error}); convert the checkpoint to safetensors"
        ) from error


def read(path: Path, archive: zipfile.ZipFile) -> dict[str, Tensor]:
    """The tensors of an open archive."""
    entries = {entry.filename: entry for entry in archive.infolist()}
    found = [name for name in entries if name.endswith("/data.pkl")]
    if len(found) != 1:
        raise UnsupportedCheckpoint(f"{path} is not a file of PyTorch weights: it should hold one data.pkl")
    root = found[0].removesuffix("data.pkl")
    check_small(path, entries[found[0]], PICKLE_LIMIT)
    if order := entries.get(root + "byteorder"):
        check_small(path, order, len("little"))
    if order and archive.read(order) != b"little":
        raise UnsupportedCheckpoint(f"{path} holds big-endian numbers; convert the checkpoint to safetensors")
    with archive.open(found[0]) as file, path.open("rb") as content:
        try:
            state = Unpickler(file, content, entries, root).load()
        except UnsupportedCheckpoint as error:
            raise UnsupportedCheckpoint(f"{path}: {error}") from error
        except Exception as error:  # damaged or hostile pickles may raise anything
            raise UnsupportedCheckpoint(f"{path} is damaged: its pickle cannot be read ({error})") from error
    if not isinstance(state, dict):
        raise UnsupportedCheckpoint(f"{path} holds a {type(state).__name__} and not tensors by name")
    found_tensors = {str(name): value for name, value in state.items() if isinstance(value, Tensor)}
    return {name: value for name, value in found_tensors.items() if value.dtype.kind in "fV"}  # V: bfloat16


def check_small(path: Path, entry: zipfile.ZipInfo, most: int) -> None:
    """Raise for a member that is compressed, as PyTorch's never are, or too large."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size or entry.file_size > most:
        raise UnsupportedCheckpoint(
            f"{path} is not a file of PyTorch weights: its {entry.filename} is compressed or larger than {most:,} bytes"
        )


class Names(dict[object, object]):
    """OrderedDict in a pickle: names of tensors, empty at first."""

    def __init__(self) -> None:
        super().__init__()

    def __setitem__(self, name: object, value: object) -> None:
        check_name(name)
        super().__setitem__(name, value)


def check_name(name: object) -> None:
    """Raise for a key that is neither text nor number: nested tuples could be endless."""
    if not isinstance(name, str | int):
        raise UnsupportedCheckpoint(f"its pickle has a {type(name).__name__} for a name")


InPython: Any = pickle._Unpickler  # Any: it has no types; unlike the one in C, it can be asked about each step


class Unpickler(InPython):  # type: ignore[misc]
    """Finds where numbers are when the pickle asks for tensors, and refuses every other name."""

    dispatch = {code: load for code, load in InPython.dispatch.items() if bytes([code]) not in UNUSED}

    def load_setitems(self) -> None:
        """Fill a dictionary."""
        items = self.pop_mark()
        for name in items[::2]:
            check_name(name)
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def load_setitem(self) -> None:
        """Add one entry to a dictionary."""
        value, name = self.stack.pop(), self.stack.pop()
        check_name(name)
        self.stack[-1][name] = value

    def load_build(self) -> None:
        """Ignore attributes: an OrderedDict's are metadata, and a tensor was checked when it was made."""
        self.stack.pop()

    dispatch |= {pickle.SETITEMS[0]: load_setitems, pickle.SETITEM[0]: load_setitem, pickle.BUILD[0]: load_build}

    def __init__(self, pickled: Any, content: BinaryIO, entries: dict[str, zipfile.ZipInfo], root: str):
        super().__init__(pickled)  # Any: what zipfile opens is readable and no BinaryIO
        self.content, self.entries, self.root = content, entries, root

    def find_class(self, module: str, name: str) -> Callable[..., object] | str:
        if (module, name) == ("collections", "OrderedDict"):
            return Names
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
        """A storage's numbers."""
        _, storage, key, _, count = reference
        if not (isinstance(storage, str) and isinstance(key, str) and type(count) is int):
            raise UnsupportedCheckpoint("its pickle asks for a storage without a name or a size")
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
    """A tensor: a view of a storage, after checking its bounds."""
    numbers = [offset, *shape, *strides]
    if any(type(number) is not int for number in numbers):
        raise UnsupportedCheckpoint("a tensor has a shape or strides that are no numbers")
    if len(shape) != len(strides) or not all(0 <= number < LARGEST for number in numbers):
        raise UnsupportedCheckpoint(f"a tensor has the shape {shown([*shape])} and the strides {shown([*strides])}")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= storage.size:
        raise UnsupportedCheckpoint(f"a tensor of shape {shape} ends beyond its storage")
    start = storage.start + offset * storage.dtype.itemsize
    return replace(storage, start=start, shape=tuple(shape), strides=tuple(strides))


def parameter(tensor: Tensor, *_: object) -> Tensor:
    """A parameter is its tensor."""
    return tensor
