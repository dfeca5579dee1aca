"""Read constants of a saved program: those in its text, and those in weight.bin."""

from pathlib import Path

import numpy as np

from backends import BackendError
from backends.coreml.tools import MIL_pb2

SENTINEL = 0xDEADBEEF
HEADER = np.dtype([("sentinel", "<u4"), ("kind", "<u4"), ("size", "<u8"), ("offset", "<u8"), ("padding", "<u8")])
"""What stands before each array in weight.bin, at the offset that the program names."""
BLOBS = {1: "<f2", 2: "<f4", 4: "i1", 8: "int4", 11: "uint4", 14: "<i4"}
"""Types of arrays by the numbers that weight.bin has for them."""
KINDS = {
    MIL_pb2.FLOAT16: "<f2",
    MIL_pb2.FLOAT32: "<f4",
    MIL_pb2.INT32: "<i4",
    MIL_pb2.INT8: "i1",
    MIL_pb2.INT4: "int4",
    MIL_pb2.UINT4: "uint4",
    MIL_pb2.BOOL: "?",
    MIL_pb2.STRING: "U",
}
"""The types of a program's values that this backend writes."""


def kind_of(kind: int) -> str:
    """The name of a type, as NumPy has it except for int4 and uint4."""
    if kind not in KINDS:
        raise BackendError(
            f"the program has a value of the type {MIL_pb2.DataType.Name(kind)}, which is not known here"
        )
    return KINDS[kind]


def sizes_of(tensor: MIL_pb2.TensorType) -> tuple[int | None, ...]:
    """A tensor's shape, None for what varies."""
    return tuple(one.constant.size if one.WhichOneof("dimension") == "constant" else None for one in tensor.dimensions)


def shape_of(tensor: MIL_pb2.TensorType) -> tuple[int, ...]:
    """A tensor's shape, all of whose sizes must be fixed."""
    sizes = sizes_of(tensor)
    if None in sizes:
        raise BackendError("the program has a value whose shape is not fixed")
    return tuple(size for size in sizes if size is not None)


def constant(value: MIL_pb2.Value, folder: Path) -> np.ndarray:
    """A constant; `folder` has the file that the program's `@model_path` stands for."""
    tensor = value.type.tensorType
    kind, shape = kind_of(tensor.dataType), shape_of(tensor)
    if value.WhichOneof("value") == "blobFileValue":
        found = blob(
            folder / value.blobFileValue.fileName.removeprefix("@model_path/"), value.blobFileValue.offset, kind
        )
        return found[: int(np.prod(shape))].reshape(shape)
    written = value.immediateValue.tensor
    field = written.WhichOneof("value")
    if field == "bytes":
        if kind in ("int4", "uint4"):
            return nibbles(np.frombuffer(written.bytes.values, np.uint8), kind)[: int(np.prod(shape))].reshape(shape)
        return np.frombuffer(written.bytes.values, kind).reshape(shape)
    return np.array(list(getattr(written, field).values), kind).reshape(shape)


def blob(path: Path, offset: int, kind: str) -> np.ndarray:
    """The array that weight.bin has at `offset`, flat."""
    size = path.stat().st_size
    if offset + HEADER.itemsize > size:
        raise BackendError(f"{path} is shorter than its program says; lower the model anew")
    header = np.memmap(path, HEADER, "r", offset, (1,))[0]
    if header["sentinel"] != SENTINEL or BLOBS.get(int(header["kind"])) != kind:
        raise BackendError(f"{path} holds no {kind} at {offset}, as its program says; lower the model anew")
    if header["offset"] + header["size"] > size:
        raise BackendError(f"{path} is shorter than its program says; lower the model anew")
    stored = np.memmap(path, np.uint8, "r", int(header["offset"]), (int(header["size"]),))
    return nibbles(stored, kind) if kind in ("int4", "uint4") else stored.view(kind)


def nibbles(stored: np.ndarray, kind: str) -> np.ndarray:
    """Two numbers of four bits from each byte, the low one first, as int8."""
    found = np.stack([stored & 15, stored >> 4], axis=-1).reshape(-1).astype(np.int8)
    return (found ^ 8) - 8 if kind == "int4" else found
