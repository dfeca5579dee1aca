"""Write a graph whose large constants go to disk one by one, so that they are never in memory together."""

import hashlib
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np
import openvino
from openvino import Shape, Tensor, Type
from openvino.op import Constant

from backends.errors import BackendError
from backends.openvino.nodes import Node

LEAST = 1 << 12
"""Constants of at least this many bytes are large."""
ALIGNED = 64
"""Alignment of constants, the same as OpenVINO's own."""
CONSTANT = re.compile(rb'(name="([^"]*)" type="Const"[^>]*>\s*<data [^>]*offset=")([0-9]+)(" size="([0-9]+)")')
"""A constant in the graph's XML: its name, offset and size."""


class WeightsFile:
    """The weights file `NAME.bin` of a graph; until it is finished, zeros stand for large constants in the graph."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name
        self.file = (folder / f"{name}.bin").open("wb")
        self.zeros = np.zeros(0, np.uint8)
        """The zeros that all constants of up to this size share."""
        self.smaller: list[np.ndarray] = []
        """Earlier, smaller zeros, which the runtime reads once more but does not keep."""
        self.places: dict[str, int] = {}
        """The offset of each large constant by name."""
        self.written: dict[bytes, int] = {}
        """The same by content."""

    def constant(self, data: np.ndarray, kind: Type, shape: tuple[int, ...]) -> Node:
        """A constant of a type that NumPy may not have; `data` are its bytes."""
        if data.nbytes < LEAST:
            tensor = Tensor(kind, Shape(shape))
            tensor.data[:] = data.reshape(tensor.data.shape)
            return Constant(tensor)
        node, name = self.placeholder(data.nbytes, kind, shape)
        content = np.ascontiguousarray(data).data
        digest = hashlib.sha256(content).digest()
        if digest not in self.written:
            self.written[digest] = self.align()
            self.file.write(content)
        self.places[name] = self.written[digest]
        return node

    def stack(self, parts: Iterable[np.ndarray], kind: Type, shape: tuple[int, ...]) -> Node:
        """A constant that stacks `parts` along a new first axis, one in memory at a time."""
        each = iter(parts)
        first = np.ascontiguousarray(next(each))
        if first.nbytes * shape[0] < LEAST:
            return self.constant(np.stack([first, *each]), kind, shape)
        node, name = self.placeholder(first.nbytes * shape[0], kind, shape)
        self.places[name] = self.align()
        for part in chain([first], each):
            assert part.nbytes == first.nbytes
            self.file.write(np.ascontiguousarray(part).data)
        return node

    def placeholder(self, size: int, kind: Type, shape: tuple[int, ...]) -> tuple[Node, str]:
        """A constant of `size` zero bytes, and its name."""
        if size > len(self.zeros):
            self.smaller.append(self.zeros)
            self.zeros = np.zeros(size, np.uint8)
        node = Constant(Tensor(self.zeros[:size], Shape(shape), kind))
        assert node.get_byte_size() == size
        name = f"large_{len(self.places)}"
        node.set_friendly_name(name)
        return node, name

    def align(self) -> int:
        """Pad the file to the next constant's offset, and return that."""
        self.file.write(bytes(-self.file.tell() % ALIGNED))
        return self.file.tell()

    def finish(self, model: openvino.Model) -> None:
        """Write the graph, and its small constants after the large ones."""
        graph, all_of_them = self.folder / f"{self.name}.xml", self.folder / "constants.bin"
        openvino.serialize(model, graph, all_of_them)
        copied: dict[tuple[int, int], int] = {}
        with all_of_them.open("rb") as constants:

            def move(found: re.Match[bytes]) -> bytes:
                begin, name, offset, end, size = found.groups()
                place = self.places.get(name.decode())
                if place is None:
                    here = int(offset), int(size)
                    if here not in copied:
                        constants.seek(here[0])
                        copied[here] = self.align()
                        self.file.write(constants.read(here[1]))
                    place = copied[here]
                return begin + str(place).encode() + end

            written = graph.read_bytes()
            moved, count = CONSTANT.subn(move, written)
        if count != written.count(b' type="Const"'):
            raise BackendError(f"OpenVINO {openvino.__version__} writes constants in a form that is not known")
        graph.write_bytes(moved)
        self.file.close()
        all_of_them.unlink()
