"""Read a GGUF file's header strictly: what it names must exist, in order, and inside the file.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Everything is checked against the size of the
file first, so that a forged header can neither fill the memory nor point outside.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from model_store.errors import UnsupportedCheckpoint
from model_store.files import refuse_pointer
from model_store.gguf.blocks import KINDS, OTHER_KINDS, Kind

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_LIMIT = 100_000_000
"""Largest header in bytes; the largest vocabularies take a tenth of it."""
STRINGS = 1 << 20
"""Most strings in an array; the largest vocabularies, and their merges, have half of that."""
NAME_LIMIT = 256
DIMENSIONS = 4
ALIGNMENT = 32
"""The tensors' alignment if the file does not say."""
LARGEST_ALIGNMENT = 1 << 16

STRING, ARRAY = 8, 9
NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
"""NumPy's names of value types."""

Value = bool | int | float | str | list[str] | np.ndarray
"""A key's value; arrays of numbers stay arrays."""


@dataclass(frozen=True)
class Entry:
    """A tensor by the header."""

    kind: Kind
    shape: tuple[int, ...]
    """The shape in NumPy's order, the last dimension contiguous; GGUF writes that one first."""
    start: int
    """Its offset in the file."""


@dataclass(frozen=True)
class Header:
    """The header of a GGUF file."""

    path: Path
    metadata: Mapping[str, Value]
    entries: Mapping[str, Entry]


class Damage(ValueError):
    """A damaged file; `read_header` adds its name."""


def read_header(path: Path) -> Header:
    """Read metadata and tensors of the file at `path`; raises UnsupportedCheckpoint for any fault."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < 24:
                raise Damage(f"it is {size} bytes long")
            with mmap.mmap(file.fileno(), min(size, HEADER_LIMIT), access=mmap.ACCESS_READ) as data:
                return parse(path, Cursor(data), size)
    except Damage as error:
        refuse_pointer(path)
        raise UnsupportedCheckpoint(f"{path} is damaged or not a GGUF file: {error}; download it again") from error
    except OSError as error:
        raise UnsupportedCheckpoint(f"cannot read {path}: {error.strerror}; check the file") from error


class Cursor:
    """A place in the header that never moves past its end."""

    def __init__(self, data: mmap.mmap):
        self.data, self.place = data, 0

    def take(self, size: int, what: str) -> bytes:
        """The next bytes."""
        self.require(size, what)
        self.place += size
        return self.data[self.place - size : self.place]

    def require(self, size: int, what: str) -> None:
        """Raise if fewer bytes are left than `what` needs."""
        if size > (left := len(self.data) - self.place):
            raise Damage(f"{what} at byte {self.place:,} needs {size:,} bytes, and the header can have {left:,}")

    def number(self, kind: str, what: str) -> int:
        """The next integer, in a format of struct."""
        return int(struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind), what))[0])

    def text(self, what: str) -> str:
        """The next string."""
        content = self.take(self.number("Q", what), what)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise Damage(f"{what} at byte {self.place - len(content):,} is not UTF-8") from error


def parse(path: Path, cursor: Cursor, size: int) -> Header:
    """Parse the header of a file of `size` bytes."""
    if (magic := cursor.take(4, "its mark")) != MAGIC:
        raise Damage(f"it begins with {magic!r} instead of {MAGIC!r}")
    version = cursor.number("I", "its version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        what = "is for big-endian machines" if swapped in VERSIONS else f"has the version {version}"
        raise UnsupportedCheckpoint(f"{path} {what}; only little-endian versions 2 and 3 are read: convert it again")
    tensors, pairs = cursor.number("Q", "its tensors' count"), cursor.number("Q", "its keys' count")
    cursor.require(13 * pairs + 25 * tensors, f"a list of {pairs:,} keys and {tensors:,} tensors")
    metadata: dict[str, Value] = {}
    for _ in range(pairs):
        key = named(cursor, "key", metadata)
        metadata[key] = value(cursor, key)
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= LARGEST_ALIGNMENT or alignment & alignment - 1:
        raise Damage(f"its alignment (general.alignment) of {alignment!r} is none")
    found: dict[str, Entry] = {}
    for _ in range(tensors):
        name = named(cursor, "tensor", found)
        found[name] = described(path, cursor, name)
    return Header(path, metadata, placed(found, start=aligned(cursor.place, alignment), alignment=alignment, size=size))


def named(cursor: Cursor, what: str, known: Mapping[str, object]) -> str:
    """The next name, which must differ from the `known` ones."""
    name = cursor.text(f"the name of a {what}")
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        raise Damage(f"a {what} is called {name[:40]!r}")
    if name in known:
        raise Damage(f"the {what} {name} is there twice")
    return name


def value(cursor: Cursor, key: str) -> Value:
    """The next value, of `key`."""
    kind = cursor.number("I", f"the type of {key}")
    if kind == STRING:
        return cursor.text(key)
    if kind in NUMBERS:
        found: bool | int | float = numbers(cursor, kind, 1, key)[0].item()
        return found
    if kind != ARRAY:
        raise Damage(f"the key {key} has the unknown type {kind}")
    kind, count = cursor.number("I", f"the type of {key}"), cursor.number("Q", f"the length of {key}")
    if kind == STRING:
        cursor.require(8 * count, f"{key} with {count:,} strings")
        if count > STRINGS:
            raise Damage(f"the key {key} has {count:,} strings, and no vocabulary has more than {STRINGS:,}")
        return [cursor.text(key) for _ in range(count)]
    if kind not in NUMBERS:
        raise Damage(f"the key {key} is an array of the type {kind}, which is unknown")
    return numbers(cursor, kind, count, key)


def numbers(cursor: Cursor, kind: int, count: int, key: str) -> np.ndarray:
    """The next numbers."""
    dtype = np.dtype(NUMBERS[kind])
    return np.frombuffer(cursor.take(count * dtype.itemsize, key), dtype)


def described(path: Path, cursor: Cursor, name: str) -> Entry:
    """The next tensor's entry, with its offset relative to the first."""
    count = cursor.number("I", f"the dimensions of {name}")
    if not 0 < count <= DIMENSIONS:
        raise Damage(f"the tensor {name} has {count:,} dimensions")
    shape = tuple(cursor.number("Q", f"the shape of {name}") for _ in range(count))[::-1]
    number, offset = cursor.number("I", f"the type of {name}"), cursor.number("Q", f"the offset of {name}")
    if number not in KINDS:
        what = OTHER_KINDS.get(number, f"number {number}")
        known = ", ".join(kind.name for kind in KINDS.values())
        raise UnsupportedCheckpoint(
            f"{path}: the tensor {name} is of the type {what}, which is not supported (known: {known}); "
            "use the same model in one of these"
        )
    kind = KINDS[number]
    if 0 in shape or shape[-1] % kind.block or (kind.tail and count != 2):
        raise Damage(f"the tensor {name} has the shape {shape}, which its type {kind.name} cannot have")
    return Entry(kind, shape, offset)


def placed(found: Mapping[str, Entry], *, start: int, alignment: int, size: int) -> dict[str, Entry]:
    """The tensors with offsets from byte `start`, which must not overlap or exceed the file."""
    entries, end = {}, 0
    for name, entry in found.items():
        if entry.start != end:
            says = f"should begin at byte {end:,} of the data and has the offset {entry.start:,}"
            raise Damage(f"the tensor {name} {says}")
        end += entry.kind.stored(prod(entry.shape))
        if start + end > size:
            raise Damage(f"the tensor {name} should end at byte {start + end:,} and the file has {size:,}")
        entries[name] = replace(entry, start=start + entry.start)
        end = aligned(end, alignment)
    return entries


def aligned(place: int, alignment: int) -> int:
    """Round up to a multiple of `alignment`."""
    return -(-place // alignment) * alignment
