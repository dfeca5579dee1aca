"""GGUF tensors: converted to float one at a time, or kept as integers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from backends.decoder import Quantized
from model_store.checkpoint import mxfp4
from model_store.checkpoint.tensor import Tensor, Told
from model_store.gguf.blocks import Kind, dequantize, kept
from model_store.gguf.reader import Header


@dataclass(frozen=True)
class GgufTensor(Tensor):
    """A tensor in a block format, read as float32, exactly."""

    kind: Kind = field(kw_only=True)

    def raw(self) -> np.ndarray:
        """Its bytes."""
        size = self.stored_size(self.size)
        return Tensor(self.path, self.modified, self.start, np.dtype(np.uint8), (size,)).read()

    def stored_size(self, count: int) -> int:
        return self.kind.stored(count)

    def quantized(self) -> Quantized | None:
        return kept(self.kind, self.raw(), self.shape[0]) if self.kind.bits and len(self.shape) == 2 else None

    def read(self) -> np.ndarray:
        return dequantize(self.kind, self.raw(), self.shape)


def tensors_of(header: Header) -> dict[str, Tensor]:
    """The tensors of a GGUF file by name."""
    modified = header.path.stat().st_mtime_ns
    found = {
        name: GgufTensor(header.path, modified, entry.start, entry.kind.dtype, entry.shape, kind=entry.kind)
        for name, entry in header.entries.items()
    }
    return expanding(found) | told(header)


@dataclass(frozen=True)
class Expanding(Tensor):
    """Latent attention's expanding matrix, from separate ones for keys, which are transposed, and values."""

    keys: Tensor = field(kw_only=True)
    values: Tensor = field(kw_only=True)

    def read(self) -> np.ndarray:
        keys, values = self.keys.read().swapaxes(1, 2), self.values.read()  # (heads, elements of a head, rank)
        return np.concatenate([keys, values], axis=1).reshape(self.shape)


def expanding(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join the tensors of latent attention that belong together."""
    found = dict(tensors)
    for name, keys in tensors.items():
        values = tensors.get(name.replace(".attn_k_b.", ".attn_v_b."))
        if ".attn_k_b." not in name or values is None or len(keys.shape) != 3 or len(values.shape) != 3:
            continue
        heads, rank, size = keys.shape
        if values.shape[::2] == (heads, rank):
            del found[name], found[name.replace(".attn_k_b.", ".attn_v_b.")]
            shape = heads * (size + values.shape[1]), rank
            whole = Expanding(keys.path, keys.modified, keys.start, keys.dtype, shape, keys=keys, values=values)
            found[name.replace(".attn_k_b.", ".attn_kv_b.")] = whole
    return found


def told(header: Header) -> dict[str, Tensor]:
    """Apertus's learned activation parameters, which are keys, as tensors."""
    found = [header.metadata.get(f"xielu.{name}") for name in ("alpha_p", "alpha_n", "beta")]
    columns = [one.ravel().tolist() for one in found if isinstance(one, np.ndarray)]
    if len(columns) < len(found) or len({*map(len, columns)}) > 1:
        return {}
    return {
        f"blk.{i}.xielu": Told(header.path, 0, 0, np.dtype(np.float32), (3,), numbers=numbers)
        for i, numbers in enumerate(zip(*columns, strict=True))
    }


def own_precision(tensors: Mapping[str, Tensor]) -> tuple[str, str, str]:
    """The precision that suits a file's matrices, why, and the exact one; "" if it is not rounded."""
    sizes: dict[Kind, int] = {}
    for tensor in tensors.values():
        if isinstance(tensor, GgufTensor) and len(tensor.shape) >= 2:
            sizes[tensor.kind] = sizes.get(tensor.kind, 0) + tensor.size
    rounded = {kind: size for kind, size in sizes.items() if kind.unpack}
    if sum(rounded.values()) * 2 < sum(sizes.values()):
        return "", "", ""
    if max(rounded, key=lambda kind: rounded[kind]).name == "MXFP4":
        return mxfp4.PRECISION, mxfp4.REASON, mxfp4.EXACT
    nibble = sum(size for kind, size in rounded.items() if kind.bits == 4)
    precision = "int4-32" if nibble * 2 >= sum(rounded.values()) else "int8-32"
    names = " and ".join(kind.name for kind in sorted(rounded, key=lambda kind: -rounded[kind]))
    again = [kind.name for kind in rounded if not kind.bits]
    if not again:
        return precision, f"the file has {names}, which is kept as it is", precision
    says = (
        f"the file has {names}; {' and '.join(again)} has offsets, which no precision here has, and is rounded once"
        " more, by at most 1/254 of the largest of 32 weights"
    )
    return precision, says, precision
