"""Canonical weight names, read through a family's table; and the transforms that tables name."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate, chain, product
from types import NoneType
from typing import Protocol

import numpy as np

from backends.decoder import (
    Decoder,
    DeltaNet,
    Layer,
    Lazy,
    Mamba,
    SelectiveState,
    ShortConvolution,
    Weight,
)
from model_store.checkpoint.checkpoint import Checkpoint, Config
from model_store.checkpoint.shapes import shapes_of
from model_store.checkpoint.tensor import Tensor
from model_store.errors import UnsupportedCheckpoint

Transform = Callable[[np.ndarray, Layer], np.ndarray]
Stored = str | tuple[str | Transform, ...]
"""A weight's name in the checkpoint, and transforms of its values.

Tensors that are joined, row by row, are separated by spaces; `=` separates alternative names, or those of copies.
`[{1}]` is an expert's part of a tensor that holds all of them."""

Made = Callable[[tuple[int, ...]], np.ndarray]
"""Makes the values of a weight of this shape that no checkpoint holds, such as np.ones."""
Source = Stored | Made
"""Where a weight's values come from."""

KINDS = (".weight", ".bias")
"""Endings of the names of tensors."""
BARE = {".weight": "", ".bias": "_bias"}
"""Endings for tensors that are parameters themselves."""
PART = "[{1}]"
"""Marks a tensor that holds all experts' parts."""
OF_EXPERTS = (
    "experts.", "router", "choice_bias", "shared_gate", "expert_scale", "experts_norm", "post_experts_norm",
    "post_shared_norm",
)  # fmt: skip
"""Prefixes of weights that only layers with experts have."""
OF_MIXING: Mapping[type, tuple[str, ...]] = {
    NoneType: ("qkv_proj", "q_norm", "k_norm", "attention_gate"),
    ShortConvolution: ("in_proj", "convolution"),
    SelectiveState: (
        "in_proj", "convolution", "steps_down_proj", "steps_down_norm", "steps_proj", "keys_proj", "keys_norm",
        "queries_proj", "queries_norm", "decay", "skip",
    ),
    DeltaNet: ("qkvz_proj", "rates_proj", "convolution", "decay", "decay_bias", "value_norm"),
    Mamba: ("qkvz_proj", "rates_proj", "convolution", "decay", "decay_bias", "value_norm", "skip", "state_o_proj"),
}  # fmt: skip
"""Weights that only layers with attention, or with this kind of recurrence, have."""
OF_ALL = "gate_up_proj", "up_proj", "down_proj"
"""Weights that layers with experts have only if they also have a shared feed-forward."""
OF_FEEDING = "ffn_norm", *OF_ALL
"""Weights that layers without a feed-forward lack."""
OF_KEYS = "k_norm", "v_norm"
"""Weights that layers without keys and values of their own lack."""
OF_INPUTS = "per_layer_", "post_per_layer_"
"""Prefixes of weights of decoders with per-layer embeddings."""


def transforms_of(source: Source) -> list[Transform]:
    """A source's transforms, in order."""
    return [part for part in source if not isinstance(part, str)] if isinstance(source, tuple) else []


class Family(Protocol):
    """What a module of `model_store.families` defines."""

    PREFIX: str | tuple[str, ...]
    """The prefix of the tensors' names, one of these, or none."""
    MODEL: Mapping[str, Source]
    """Canonical name -> source. A `?` at the end of a name marks weights that some checkpoints lack or, before the same
    name without it, have in another form.

    A missing head is the embedding."""
    LAYER: Mapping[str, Source]
    """The same for a layer, whose index replaces `{}`; `encoder.` begins the names of an encoder's layers, and
    `experts.` those of experts, whose index replaces `{1}`.

    If token mixing and feed-forward are blocks with numbers of their own, these replace `{2}` and `{3}`."""
    UNUSED: tuple[str, ...]
    """Patterns of tensors without weights, such as stored masks.

    `{}` is the index of each layer without keys and values of its own, whose tensors some checkpoints contain."""
    TIED: bool
    """Whether the head is the embedding unless `tie_word_embeddings` says otherwise."""

    def decoder(self, config: Config) -> Decoder: ...


def written(source: Stored) -> str:
    """The names of a source's tensors, as written in a table."""
    return source if isinstance(source, str) else str(source[0])


def renamed(source: Stored, parts: Mapping[str, str]) -> Stored:
    """Replace parts of the names in a source."""
    names = written(source)
    for part, called in parts.items():
        names = names.replace(part, called)
    return (names, *transforms) if (transforms := transforms_of(source)) else names


def source_of_heads(source: Source, layer: Layer) -> Source:
    """The source of a layer's qkv_proj, without keys and values if they are another layer's."""
    if layer.kv_layer is None and not layer.k_eq_v:
        return source
    q, k, _ = str(source).split()
    return q if layer.kv_layer is not None else f"{q} {k} {k}"


class Canonical(Lazy):
    """A checkpoint's weights under canonical names; every tensor is claimed, and none is missing."""

    def __init__(self, checkpoint: Checkpoint, family: Family, decoder: Decoder):
        self.tensors, self.decoder, self.layers = {**checkpoint.tensors}, decoder, decoder.layers
        self.blocks = dict(enumerate(accumulate((1 + a.feeds for a in self.layers), initial=0)))
        text = checkpoint.config.get("text_config") or {}
        self.tied = {**text, **checkpoint.config}.get("tie_word_embeddings", family.TIED)
        self.prefixes = ("", family.PREFIX) if isinstance(family.PREFIX, str) else ("", *family.PREFIX)
        table = {name: (source, 0) for name, source in family.MODEL.items() if self.has(name)}
        for name, source in family.LAYER.items():
            part = "encoder." if name.startswith("encoder.") else ""
            for i in range(len(decoder.encoder if part else decoder.layers)):
                table |= self.rows(f"{part}layers.{i}.", name.removeprefix(part), source, i)
        self.table: dict[str, tuple[Source, int]] = {}
        self.found: dict[tuple[Source, int, str], list[list[str]]] = {}
        for name, (source, layer) in table.items():
            if name.endswith(".up_proj") and name.replace("up_proj", "gate_up_proj") in self.table:
                continue  # it has a gate instead; a tensor of this name would be unclaimed
            if callable(source) or self.find(source, layer, ".weight"):
                self.table[name.rstrip("?")] = source, layer
            elif name == "lm_head?" or (name == "lm_head" and self.tied):
                self.table["lm_head"] = self.table["embedding"]
            elif not name.endswith("?") and name not in self.table:
                names = self.names(source, layer, ".weight")
                missing = f"{checkpoint.folder} lacks the tensor {' and '.join(names)} (its {name})"
                raise UnsupportedCheckpoint(f"{missing}; download {checkpoint.files_without(names)} again")
        self.refuse_unclaimed(family)

    def rows(self, layer: str, name: str, source: Source, number: int) -> dict[str, tuple[Source, int]]:
        """The table's rows for a weight of a layer: none if the layer lacks it, one per expert if it is theirs."""
        experts, a = self.decoder.experts, self.layers[number]
        if not self.has(name) or (a.kv_layer is not None and name in OF_KEYS):
            return {}
        if not a.feeds and name in OF_FEEDING:
            return {}
        recurrence = a.recurrence if layer.startswith("layers.") else None
        mixing = OF_MIXING[type(recurrence)] + (OF_MIXING[NoneType] if a.beside else ())
        if name not in mixing and name in chain.from_iterable(OF_MIXING.values()):
            return {}
        if name == "value_norm" and isinstance(recurrence, Mamba) and recurrence.epsilon is None:
            return {}
        if name == "qkv_proj":
            source = source_of_heads(source, a)
        if experts is None or number not in experts.layers:
            return {} if name.startswith(OF_EXPERTS) else {layer + name: (source, number)}
        if not name.startswith("experts.") or callable(source):
            return {} if name in OF_ALL and not experts.shared else {layer + name: (source, number)}
        self.divide(source, number, experts.count)
        name = name.removeprefix("experts.")
        return {f"{layer}experts.{i}.{name}": (renamed(source, {"{1}": str(i)}), number) for i in range(experts.count)}

    def has(self, name: str) -> bool:
        """Whether the decoder has such a weight, as far as per-layer embeddings go."""
        return self.decoder.per_layer_size > 0 or not name.startswith(OF_INPUTS)

    def divide(self, source: Stored, layer: int, count: int) -> None:
        """Replace a tensor that holds all experts' parts by these parts."""
        lists = [name for name in written(source).replace("=", " ").split() if PART in name]
        for part, prefix, end in product(lists, self.prefixes, (*KINDS, *BARE.values())):
            name = prefix + part.replace(PART, "").format(layer) + end
            if name not in self.tensors:
                continue
            tensor = self.tensors.pop(name)
            if not tensor.shape or tensor.shape[0] != count:
                says = f"the tensor {name} has shape {tensor.shape}; config.json asks for {count} experts"
                raise UnsupportedCheckpoint(says)
            parts = (prefix + part.format(layer, i) + end for i in range(count))
            self.tensors |= zip(parts, tensor.parts, strict=True)

    def __getitem__(self, name: str) -> Weight:
        source, layer = self.table[name]
        if name == "lm_head" and self.head_is_embedding:
            name = "embedding"  # one table, stored once
        if callable(source):
            return Weight(name, np.asarray(source(self.shape(name)), np.float32))
        values = self.read(source, layer, ".weight")
        bias = self.read(source, layer, ".bias")
        assert values is not None  # found when the table was made
        shape = self.shape(name) or values.shape
        for found, kind, expected in (values, ".weight", shape), (bias, ".bias", shape[:1]):
            if found is not None and found.shape != expected:
                tensor = f"the tensor {' and '.join(self.names(source, layer, kind))} has shape {found.shape}"
                raise UnsupportedCheckpoint(f"{tensor}; config.json and the tensors beside it ask for {expected}")
        return Weight(name, values, bias)

    @cached_property
    def head_is_embedding(self) -> bool:
        """Whether the head is the embedding, though a tied checkpoint may contain a copy."""
        head, embedding = self.table["lm_head"], self.table["embedding"]
        if head == embedding or not self.tied or self.find(*head, ".bias"):
            return head == embedding
        if self.parts("lm_head") == self.parts("embedding"):  # one place in the file under two names
            return True
        one, other = self.read(*head, ".weight"), self.read(*embedding, ".weight")
        return one is not None and other is not None and is_same(one, other)

    @property
    def parameters(self) -> int:
        """The number of parameters; copies count once."""
        rows = {row for name, row in self.table.items() if name != "lm_head" or not self.head_is_embedding}
        found = {copies[0] for row in rows for kind in KINDS for copies in self.find(*row, kind)}
        return sum(self.tensors[name].size for name in found)

    def read(self, source: Source, layer: int, kind: str) -> np.ndarray | None:
        """Read a weight or a bias: matrices as stored, vectors as float32."""
        found = self.find(source, layer, kind)
        parts = [np.atleast_1d(self.one_of(copies)) for copies in found]
        if not parts:
            return None
        if any(part.ndim > 1 for part in parts):  # a vector among matrices is a row
            parts = [np.atleast_2d(part) for part in parts]
        transforms = transforms_of(source)
        try:
            outputs = -1 if transpose in transforms else 0
            values = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=outputs)
            del parts  # before a transform makes another copy
            for transform in transforms:
                if kind == ".weight" or transform is not plus_one:
                    values = transform(values, self.layers[layer])
        except ValueError as error:
            shapes = " and ".join(f"{names[0]} {self.tensors[names[0]].shape}" for names in found)
            raise UnsupportedCheckpoint(f"the shape of {shapes} is not what config.json says ({error})") from error
        return values if values.ndim == 2 else np.asarray(values, np.float32)

    def parts(self, name: str) -> list[Tensor]:
        """The tensors of a weight and its bias."""
        return [self.tensors[copies[0]] for kind in KINDS for copies in self.find(*self.table[name], kind)]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight by config.json, or by a neighbouring tensor; () if unknown."""
        _, layer = self.table[name]
        layers = self.decoder.encoder if name.startswith("encoder.") else self.layers
        role, experts = name.rpartition(".")[2], self.decoder.experts
        inner = self.columns(name.removesuffix(role) + "down_proj")
        if experts and ".experts." in name:
            inner = experts.size
        known = shapes_of(self.decoder, layers[layer], inner=inner, width=self.columns("project_in"))
        return known.get(role, (self.decoder.hidden_size,) if role.endswith("norm") else ())

    def columns(self, name: str) -> int:
        """A matrix's number of columns; 0 if there is none."""
        if name not in self:
            return 0
        source, layer = self.table[name]
        shape = self.tensors[self.find(source, layer, ".weight")[0][0]].shape
        return sum(shape[:1] if transpose in transforms_of(source) else shape[1:])

    def names(self, source: Source, layer: int, kind: str) -> list[str]:
        """The names of a source's tensors, without prefix."""
        if callable(source):
            return []
        block = self.blocks.get(layer, 0)
        names = written(source).format(layer, "", block, block + 1).split()
        return [name.replace("=", kind + "=") + kind for name in names]

    def find(self, source: Source, layer: int, kind: str) -> list[list[str]]:
        """A source's tensors with their copies, all or none; remembered once found."""
        if (known := self.found.get((source, layer, kind))) is not None:
            return known
        names = self.names(source, layer, kind)
        ends = kind, BARE[kind]
        spelled = [
            [
                prefix + copy.removesuffix(kind) + end
                for copy in name.split("=")
                for prefix in self.prefixes
                for end in ends
            ]
            for name in names
        ]
        found = [there for copies in spelled if (there := [name for name in copies if name in self.tensors])]
        if found and len(found) != len(names):
            there = [copy for copies in found for copy in copies]
            raise UnsupportedCheckpoint(f"of the tensors {' and '.join(names)} only {' and '.join(there)} is there")
        self.found[source, layer, kind] = found
        return found

    def one_of(self, copies: list[str]) -> np.ndarray:
        """Read copies of a tensor, which must be equal."""
        first = self.tensors[copies[0]]
        values = first.read()
        if not is_finite(values):
            raise UnsupportedCheckpoint(f"the tensor {copies[0]} holds NaN or infinite values; download it again")
        for name in copies[1:]:
            if self.tensors[name] != first and not is_same(values, self.tensors[name].read()):
                raise UnsupportedCheckpoint(f"the tensors {copies[0]} and {name} should be copies, and they differ")
        return values

    def refuse_unclaimed(self, family: Family) -> None:
        """Raise for a tensor with numbers that no table row mentions: it would silently be ignored."""
        rows = [found for row in self.table.values() for kind in KINDS for found in self.find(*row, kind)]
        claimed = {name for copies in rows for name in copies}
        borrowing = [i for i, layer in enumerate(self.layers) if layer.kv_layer is not None]
        unused = {*family.UNUSED, *(pattern.format(i) for pattern in family.UNUSED for i in borrowing)}
        for name in self.tensors.keys() - claimed:
            if self.tensors[name].size and not any(fnmatchcase(name, "*" + pattern) for pattern in unused):
                raise UnsupportedCheckpoint(
                    f"nothing is known about the tensor {name}; this checkpoint is not supported"
                )


EXPONENTS = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F80_0000, "float64": 0x7FF0_0000_0000_0000}
"""The exponent bits, which are all set in NaN and infinity only."""
CHUNK = 1 << 18
"""Values checked at once, so that they stay in the processor's cache."""


def is_finite(values: np.ndarray) -> bool:
    """Whether a tensor has neither NaN nor infinity."""
    mask = EXPONENTS[values.dtype.name]
    return all((chunk & chunk.dtype.type(mask)).max() != mask for chunk in bits(values))


def is_same(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two tensors have the same numbers in the same format."""
    return (x.dtype, x.shape) == (y.dtype, y.shape) and all(map(np.array_equal, bits(x), bits(y)))


def bits(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yield a tensor's numbers as bits, some rows at a time."""
    values = np.atleast_1d(values)
    step = max(1, CHUNK * len(values) // max(1, values.size))
    for start in range(0, len(values) if values.size else 0, step):
        yield np.ascontiguousarray(values[start : start + step]).view(f"u{values.itemsize}")


# Transforms: values of one canonical weight or bias -> the same, in canonical order.


def transpose(values: np.ndarray, layer: Layer) -> np.ndarray:
    """GPT-2's Conv1D stores (in, out)."""
    return values.T


def plus_one(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Gemma's and Nemotron's norms multiply by 1 + weight; biases stay."""
    return np.asarray(values, np.float32) + 1


def flat(values: np.ndarray, layer: Layer) -> np.ndarray:
    """A vector, from a row, a column, or a row per group."""
    return values.reshape(-1)


def flattened(values: np.ndarray, layer: Layer) -> np.ndarray:
    """A depthwise convolution's kernel, from (channels, 1, width)."""
    return values.reshape(len(values), -1) if values.ndim > 1 else values


def without_gates(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Drop the gates: reorder each head's q and gate in turn, then k and v, to q, k, v."""
    both = 2 * layer.heads * layer.head_dim
    queries = values[:both].reshape(layer.heads, 2, layer.head_dim, *values.shape[1:])[:, 0]
    return np.concatenate([queries.reshape(-1, *values.shape[1:]), values[both:]])


def gates_alone(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Drop the queries: take the gates from each head's q and gate in turn."""
    gates = values.reshape(layer.heads, 2, layer.head_dim, *values.shape[1:])[:, 1]
    return gates.reshape(-1, *values.shape[1:])


def skip_two(values: np.ndarray, layer: Layer) -> np.ndarray:
    """OPT's position table begins with two rows for padding."""
    return values[2:]


def group_heads(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder each key-value head's queries, key and value in turn to all q, all k, all v."""
    groups = values.reshape(layer.kv_heads, -1, layer.head_dim, *values.shape[1:])
    parts = groups[:, :-2], groups[:, -2], groups[:, -1]
    return np.concatenate([part.reshape(-1, *values.shape[1:]) for part in parts])


def halve_rotary(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder interleaved rotary pairs, in a head's first elements, to halves of a head, in layers that rotate."""
    if layer.rope is None:
        return values
    rotary = rotated_elements(layer)
    return reorder_rotary(values, layer, [*range(0, rotary, 2)], [*range(1, rotary, 2)])


def spread_rotary(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder a head that rotates the halves of its first elements to one that rotates its own halves."""
    rotary = rotated_elements(layer)
    return reorder_rotary(values, layer, [*range(rotary // 2)], [*range(rotary // 2, rotary)])


def rotated_elements(layer: Layer) -> int:
    """The number of rotary elements of a head."""
    assert layer.rope is not None
    return 2 * int(np.count_nonzero(layer.rope.inverse_frequencies))


def reorder_rotary(values: np.ndarray, layer: Layer, first: list[int], second: list[int]) -> np.ndarray:
    """Put the rotary pairs (first[i], second[i]) half a head apart, in the rows of q and k only."""
    size, rotary = layer.head_dim, len(first) + len(second)
    middle = (rotary + size) // 2
    order = [*first, *range(rotary, middle), *second, *range(middle, size)]
    heads = values.reshape(-1, size, *values.shape[1:]).copy()
    rotated = layer.heads + layer.kv_heads
    heads[:rotated] = heads[:rotated, order]
    return heads.reshape(values.shape)
