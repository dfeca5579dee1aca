"""The weights of a GGUF file: read and made float one at a time, or kept as the integers they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from backends.decoder import Lazy, Quantized, Weight
from backends.quantize import EXACT
from model_store.checkpoint.tensor import Tensor
from model_store.checkpoint.weights import Canonical, transforms_of
from model_store.errors import UnsupportedCheckpoint
from model_store.gguf.blocks import KINDS, Kind, dequantize, kept
from model_store.gguf.reader import Header

PLAIN = KINDS[0]


@dataclass(frozen=True)
class GgufTensor(Tensor):
    """A tensor whose numbers are in blocks; it reads as float32, `dtype`, which is exact."""

    kind: Kind = PLAIN

    def raw(self) -> np.ndarray:
        """Its bytes."""
        count = self.stored_size(self.size)
        return replace(self, dtype=np.dtype(np.uint8), shape=(count,), kind=PLAIN).stored()

    def stored_size(self, count: int) -> int:
        return count // self.kind.block * self.kind.size

    def stored(self) -> np.ndarray:
        """The numbers as they lie in the file."""
        return super().read()

    def read(self) -> np.ndarray:
        return dequantize(self.kind, self.raw(), self.shape)


@dataclass(frozen=True)
class Told(Tensor):
    """A tensor whose few numbers the file's keys have."""

    numbers: tuple[float, ...] = ()

    def read(self) -> np.ndarray:
        return np.array(self.numbers, np.float32)


def tensors_of(header: Header) -> dict[str, Tensor]:
    """The tensors of a GGUF file by name."""
    modified = header.path.stat().st_mtime_ns
    return {
        name: GgufTensor(header.path, modified, entry.start, entry.kind.dtype, entry.shape, kind=entry.kind)
        for name, entry in header.entries.items()
    } | told(header)


def told(header: Header) -> dict[str, Tensor]:
    """What was learned of each layer's activation, which Apertus has as keys."""
    found = [header.metadata.get(f"xielu.{name}") for name in ("alpha_p", "alpha_n", "beta")]
    columns = [one.ravel().tolist() for one in found if isinstance(one, np.ndarray)]
    if len(columns) < len(found) or len({*map(len, columns)}) > 1:
        return {}
    return {
        f"blk.{i}.xielu": Told(header.path, 0, 0, np.dtype(np.float32), (3,), numbers=numbers)
        for i, numbers in enumerate(zip(*columns, strict=True))
    }


class Kept(Lazy):
    """The same weights, of which those matrices are not made float that the file has as integers."""

    def __init__(self, weights: Canonical):
        self.table = self.weights = weights

    def parts(self, name: str) -> list[Tensor]:
        """The tensors that are read for the weight called `name`, and for its bias."""
        return self.weights.parts(name)

    def __getitem__(self, name: str) -> Weight:
        canonical = self.weights
        if name == "lm_head" and canonical.head_is_embedding:
            name = "embedding"  # one table, stored once
        source, layer = canonical.table[name]
        names = [copies[0] for copies in canonical.find(source, layer, ".weight")]
        found = [canonical.tensors[one] for one in names]
        matrices = [one for one in found if isinstance(one, GgufTensor) and one.kind.bits and len(one.shape) == 2]
        bias = canonical.read(source, layer, ".bias")
        rows, columns = sum(one.shape[0] for one in matrices), {one.shape[1] for one in matrices}
        fits = canonical.shape(name) in ((), (rows, *columns)) and (bias is None or bias.shape == (rows,))
        if name.endswith(EXACT) or len(matrices) < len(found) or not fits:
            return canonical[name]
        values = joined([kept(one.kind, one.raw(), one.shape[0]) for one in matrices])
        if not np.isfinite(values.scales).all():
            raise UnsupportedCheckpoint(f"{' or '.join(names)} holds NaN or infinite values; download the file again")
        for transform in transforms_of(source):  # each only changes the order of rows
            numbers, scales = (transform(part, canonical.layers[layer]) for part in (values.values, values.scales))
            values = replace(values, values=numbers, scales=scales)
        return Weight(name, values, bias)


def joined(parts: list[Quantized]) -> Quantized:
    """Matrices one below the other: in nibbles if all of them are, else in int8, with the smallest block of any."""
    if len(parts) == 1:
        return parts[0]
    block = min(part.block for part in parts)
    bits = max(part.bits for part in parts)
    values = [part.values if part.bits == bits else wider(part.values) for part in parts]
    scales = [part.scales.repeat(part.block // block, axis=1) for part in parts]
    return Quantized(np.concatenate(values), np.concatenate(scales), bits, block)


def wider(values: np.ndarray) -> np.ndarray:
    """Nibbles (out, in / 2), of which 8 stands for 0, as int8 (out, in)."""
    pairs = np.stack([values & 15, values >> 4], axis=-1).view(np.int8) - np.int8(8)
    return pairs.reshape(len(values), -1)


def own_precision(tensors: Mapping[str, Tensor]) -> tuple[str, str]:
    """At which precision a file's matrices are rounded least, and why, in words; both empty if it is not rounded."""
    sizes: dict[Kind, int] = {}
    for tensor in tensors.values():
        if isinstance(tensor, GgufTensor) and len(tensor.shape) == 2:
            sizes[tensor.kind] = sizes.get(tensor.kind, 0) + tensor.size
    rounded = {kind: size for kind, size in sizes.items() if kind.unpack}
    if sum(rounded.values()) * 2 < sum(sizes.values()):
        return "", ""
    nibble = sum(size for kind, size in rounded.items() if kind.bits == 4)
    precision = "int4-32" if nibble * 2 >= sum(rounded.values()) else "int8-32"
    names = " and ".join(kind.name for kind in sorted(rounded, key=lambda kind: -rounded[kind]))
    again = [kind.name for kind in rounded if not kind.bits]
    if not again:
        return precision, f"the file has {names}, which is kept as it is"
    return precision, (
        f"the file has {names}; {' and '.join(again)} has offsets, which no precision here has, and is rounded once"
        " more, by at most 1/254 of the largest of 32 weights"
    )
