"""Read config.json and safetensors, tensor by tensor, without torch."""

import json
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from model_store.checkpoint import fp8, rounded, torch_file
from model_store.checkpoint.tensor import LARGEST, Tensor
from model_store.errors import UnsupportedCheckpoint, cut, shown
from model_store.files import optional_json, refuse_pointer
from model_store.files import read_json as read_json

DTYPES = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
ROUNDED = {
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    **fp8.DTYPES,
}
"""Data types of rounded formats only."""
OTHER_SIZES = {"BOOL": 1, "U16": 2, "I16": 2, "U32": 4, "U64": 8}
UNREAD = re.compile(r"(F8|F6|F4|I4|U4)(_\w+)?")
"""Data types of checkpoints with unsupported rounding."""
HEADER_LIMIT = 100_000_000
"""The format's own limit, in bytes."""

LAYOUTS = (
    ("model.safetensors.index.json", "*.safetensors"),
    ("pytorch_model.bin.index.json", "pytorch_model.bin"),
)
"""Index and weights files, in the order in which they are looked for."""

Config = Mapping[str, Any]
"""config.json as JSON; families know the types of its fields."""


class Checkpoint:
    """A publisher's folder: its configuration, and its floating-point tensors by name, read when needed."""

    precision = precision_reason = ""
    """The suitable precision for rounded weights, and why; "" if they are not rounded."""
    exact = ""
    """The precision that keeps them exactly."""

    def __init__(self, folder: Path):
        refuse_adapter(folder)
        self.folder = folder
        self.config: Config = read_json(folder / "config.json")
        found: dict[str, Tensor] = {}
        self.files = weight_files(folder)
        for path in self.files:
            found |= tensors(path, DTYPES | ROUNDED) if path.suffix == ".safetensors" else torch_file.tensors(path)
        self.tensors = rounded.join(found, self.config)
        told = (tensor.told for tensor in self.tensors.values())
        self.precision, self.precision_reason, self.exact = next(filter(any, told), ("", "", ""))

    def files_without(self, tensors: Sequence[str]) -> str:
        """Name the files of missing tensors whose names end with one of `tensors`, if an index tells them."""
        index = optional_json(self.folder / LAYOUTS[0][0]).get("weight_map", {}).items()
        lost = {file for name, file in index if name.endswith(tuple(tensors)) and name not in self.tensors}
        return " and ".join(sorted(lost)) or "its weights"


def refuse_adapter(folder: Path) -> None:
    """Raise for a folder with an adapter rather than a model."""
    weights = (path.name for _, pattern in LAYOUTS for path in folder.glob(pattern))
    if (folder / "adapter_config.json").is_file() and all(name.startswith("adapter_model") for name in weights):
        base = read_json(folder / "adapter_config.json").get("base_model_name_or_path", "another model")
        raise UnsupportedCheckpoint(
            f"{folder} is an adapter (adapter_config.json) for {base}, not a model; merge the two with"
            " merge_and_unload of the library peft, and use the result"
        )


def weight_files(folder: Path) -> list[Path]:
    """The weights files, which must exist: safetensors, else PyTorch's; an index decides if there is one."""
    for index, pattern in LAYOUTS:
        if (folder / index).exists():
            return indexed(folder / index)
        if found := sorted(folder.glob(pattern)):
            if away := next((path for path in found if not path.exists()), None):
                raise UnsupportedCheckpoint(f"{away} is a link to {away.resolve()}, which is gone; download it again")
            return found
    raise UnsupportedCheckpoint(f"{folder} has neither a .safetensors file nor pytorch_model.bin; download its weights")


def indexed(index: Path) -> list[Path]:
    """The files in an index."""
    folder = index.parent
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise UnsupportedCheckpoint(f"{index} has no weight_map; download it again")
    names = sorted(set(weight_map.values()))
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise UnsupportedCheckpoint(f"{folder} lacks {name!r}, which its index names; download it again")
    return [folder / name for name in names]


def tensors(path: Path, dtypes: Mapping[str, np.dtype[Any]] = DTYPES) -> dict[str, Tensor]:
    """The tensors of one safetensors file with the given data types.

    All entries are checked first, shape against size, and that they cover the file without gaps or overlaps, so that a
    truncated or altered file is refused by a tensor's name (https://github.com/huggingface/safetensors#format).
    """
    refuse_pointer(path)
    status = path.stat()
    size = status.st_size
    if size < 8:
        raise damaged(path, f"it is {size} bytes long")
    with path.open("rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        if start > min(size, HEADER_LIMIT):
            raise damaged(path, f"its header should be {start - 8} bytes long and the file has {size}")
        text = file.read(start - 8)
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        refuse_rounded(path, header)
        spans = {name: span(name, entry) for name, entry in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(path, f"its header cannot be read ({error})") from error
    check_cover(path, spans, start=start, size=size)
    return {
        name: Tensor(path, status.st_mtime_ns, start + begin, dtypes[entry["dtype"]], tuple(entry["shape"]))
        for (name, entry), (begin, _, _) in zip(header.items(), spans.values(), strict=True)
        if entry["dtype"] in dtypes
    }


def check_cover(path: Path, spans: Mapping[str, tuple[int, int, int]], *, start: int, size: int) -> None:
    """Raise unless the tensors cover the file, from `start` to `size`, without gaps or overlaps."""
    end = 0
    for name, (begin, stop, expected) in sorted(spans.items(), key=lambda item: item[1]):
        if begin != end or stop - begin != expected:
            raise damaged(
                path, f"tensor {cut(name)} should be bytes {end} to {end + expected} and is {begin} to {stop}"
            )
        if start + stop > size:
            raise damaged(path, f"tensor {cut(name)} ends at byte {start + stop} and the file has {size}")
        end = stop
    if start + end != size:
        raise damaged(path, f"its tensors end at byte {start + end} and the file has {size}")


def refuse_rounded(path: Path, header: dict[str, Any]) -> None:
    """Raise for a tensor in an unsupported rounded format."""
    for name, entry in header.items():
        if entry["dtype"] not in ROUNDED and UNREAD.fullmatch(entry["dtype"]):
            raise UnsupportedCheckpoint(
                f"{path}: the tensor {name} is rounded already ({entry['dtype']}); use the publisher's checkpoint in"
                " bfloat16, float16 or float32"
            )


def span(name: str, entry: dict[str, Any]) -> tuple[int, int, int]:
    """A header entry's begin and end, and the length in bytes that its shape implies."""
    known = (DTYPES | ROUNDED).get(entry["dtype"])
    item = known.itemsize if known else OTHER_SIZES[entry["dtype"]]
    begin, stop = entry["data_offsets"]
    numbers = [begin, stop, *entry["shape"]]
    if not all(type(number) is int and 0 <= number < LARGEST for number in numbers):
        raise ValueError(f"{cut(name)} has sizes that are none: {shown(numbers)}")
    return begin, stop, item * prod(entry["shape"])


def damaged(path: Path, what: str) -> UnsupportedCheckpoint:
    """The error for a file that does not match its header."""
    return UnsupportedCheckpoint(f"{path} is damaged or incomplete: {what}; download it again")
