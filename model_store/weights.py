"""Canonical weight names, read through a family's table; and the transforms such a table may name."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Protocol

import numpy as np

from backends.decoder import Attention, Decoder, Weight
from model_store.checkpoint import Checkpoint, Config
from model_store.errors import UnsupportedCheckpoint

Transform = Callable[[np.ndarray, Attention], np.ndarray]
Source = str | tuple[str | Transform, ...]
"""The checkpoint's name for a weight (several, joined row-wise, with spaces between), and how to change its values."""


class Family(Protocol):
    """What a module of `model_store.families` holds."""

    PREFIX: str
    """What the names of the tensors may begin with."""
    MODEL: Mapping[str, Source]
    """Canonical name -> source; a `?` at the end of the name marks weights that some checkpoints lack."""
    LAYER: Mapping[str, Source]
    """The same within a layer, whose number takes the place of `{}`."""
    UNUSED: tuple[str, ...]
    """Patterns of tensors that carry no weights, such as stored masks."""
    TIED: bool
    """Whether the head is the embedding unless `tie_word_embeddings` says otherwise."""

    def decoder(self, config: Config) -> Decoder: ...


class Canonical(Mapping[str, Weight]):
    """The tensors of a checkpoint under their canonical names; every tensor is claimed, and none is missing."""

    def __init__(self, checkpoint: Checkpoint, family: Family, decoder: Decoder):
        self.tensors, self.layers = checkpoint.tensors, decoder.layers
        self.prefix = family.PREFIX if any(name.startswith(family.PREFIX) for name in self.tensors) else ""
        table = {name: (source, 0) for name, source in family.MODEL.items()}
        for i in range(len(decoder.layers)):
            table |= {f"layers.{i}.{name}": (source, i) for name, source in family.LAYER.items()}
        self.table: dict[str, tuple[Source, int]] = {}
        for name, (source, layer) in table.items():
            if self.find(source, layer, ".weight"):
                self.table[name.rstrip("?")] = source, layer
            elif name == "lm_head" and checkpoint.config.get("tie_word_embeddings", family.TIED):
                self.table[name] = self.table["embedding"]
            elif not name.endswith("?"):
                missing = " and ".join(self.names(source, layer, ".weight"))
                raise UnsupportedCheckpoint(f"{checkpoint.folder} lacks the tensor {missing} (its {name})")
        self.refuse_unclaimed(family)
        self.shapes = shapes(decoder)

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, name: object) -> bool:
        return name in self.table

    def __getitem__(self, name: str) -> Weight:
        source, layer = self.table[name]
        if name == "lm_head" and self.table[name] == self.table["embedding"]:
            name = "embedding"  # one table, stored once
        values = self.read(source, layer, ".weight")
        assert values is not None  # found when the table was made
        shape = self.shapes.get(name, values.shape)
        if values.shape != shape:
            tensor = " and ".join(self.names(source, layer, ".weight"))
            raise UnsupportedCheckpoint(f"the tensor {tensor} has shape {values.shape}, config.json says {shape}")
        return Weight(name, values, self.read(source, layer, ".bias"))

    def read(self, source: Source, layer: int, kind: str) -> np.ndarray | None:
        """The values of a weight or bias; matrices as they are stored, vectors as float32."""
        arrays = [self.tensors[name] for name in self.find(source, layer, kind)]
        if not arrays:
            return None
        values = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        for transform in () if isinstance(source, str) else source[1:]:
            assert callable(transform)  # only the first element is a name
            values = transform(values, self.layers[layer])
        return values if values.ndim == 2 else np.asarray(values, np.float32)

    def names(self, source: Source, layer: int, kind: str) -> list[str]:
        """What the tensors of `source` are called, without the prefix."""
        return [name.format(layer) + kind for name in str(source if isinstance(source, str) else source[0]).split()]

    def find(self, source: Source, layer: int, kind: str) -> list[str]:
        """The tensors of `source`, all or none of them."""
        names = self.names(source, layer, kind)
        spellings = {self.prefix, ""}
        found = [prefix + name for name in names for prefix in spellings if prefix + name in self.tensors]
        if found and len(found) != len(names):
            raise UnsupportedCheckpoint(f"of the tensors {' and '.join(names)} only {' and '.join(found)} is there")
        return found

    def refuse_unclaimed(self, family: Family) -> None:
        """Raise for a tensor that no row of the table mentions: it would silently not take part."""
        kinds = ".weight", ".bias"
        claimed = {name for row in self.table.values() for kind in kinds for name in self.find(*row, kind)}
        for name in self.tensors.keys() - claimed:
            if not any(fnmatchcase(name, "*" + pattern) for pattern in family.UNUSED):
                raise UnsupportedCheckpoint(
                    f"nothing is known about the tensor {name}; this checkpoint is not supported"
                )


def shapes(decoder: Decoder) -> dict[str, tuple[int, ...]]:
    """The sizes that config.json announces, of the weights that it does announce."""
    size = decoder.hidden_size
    found = {"embedding": (decoder.vocab_size, size), "lm_head": (decoder.vocab_size, size), "norm": (size,)}
    for i, a in enumerate(decoder.layers):
        found[f"layers.{i}.qkv_proj"] = ((a.heads + 2 * a.kv_heads) * a.head_dim, size)
        found[f"layers.{i}.o_proj"] = (size, a.heads * a.head_dim)
    return found


# Transforms: values of one canonical weight or bias -> the same, in canonical order.


def transpose(values: np.ndarray, attention: Attention) -> np.ndarray:
    """GPT-2's Conv1D keeps (in, out)."""
    return values.T


def plus_one(values: np.ndarray, attention: Attention) -> np.ndarray:
    """Gemma's norms multiply by 1 + weight."""
    return np.asarray(values, np.float32) + 1


def skip_two(values: np.ndarray, attention: Attention) -> np.ndarray:
    """OPT's table of positions begins with two rows for padding."""
    return values[2:]


def group_heads(values: np.ndarray, attention: Attention) -> np.ndarray:
    """From q, k, v of each head in turn to all q, all k, all v."""
    return values.reshape(attention.heads, 3, -1).swapaxes(0, 1).reshape(values.shape)


def halve_rotary(values: np.ndarray, attention: Attention) -> np.ndarray:
    """From rotating neighbours, in the first elements of a head, to rotating the halves of the head."""
    rotary = rotated_elements(attention)
    return reorder_rotary(values, attention, [*range(0, rotary, 2)], [*range(1, rotary, 2)])


def spread_rotary(values: np.ndarray, attention: Attention) -> np.ndarray:
    """From rotating the halves of the first elements of a head to rotating the halves of the head."""
    rotary = rotated_elements(attention)
    return reorder_rotary(values, attention, [*range(rotary // 2)], [*range(rotary // 2, rotary)])


def rotated_elements(attention: Attention) -> int:
    """How many elements of a head have a rotary position."""
    assert attention.rope is not None
    return 2 * int(np.count_nonzero(attention.rope.inverse_frequencies))


def reorder_rotary(values: np.ndarray, attention: Attention, first: list[int], second: list[int]) -> np.ndarray:
    """Put the rotated pairs (first[i], second[i]) half a head apart, in the rows of q and k only."""
    size, rotary = attention.head_dim, len(first) + len(second)
    middle = (rotary + size) // 2
    order = [*first, *range(rotary, middle), *second, *range(middle, size)]
    heads = values.reshape(-1, size, *values.shape[1:]).copy()
    rotated = attention.heads + attention.kv_heads
    heads[:rotated] = heads[:rotated, order]
    return heads.reshape(values.shape)
