"""The inputs of a step of fixed length, which the host computes so that the graph need not look anything up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from backends import BackendError
from backends.decoder import Clamped, Decoder, Experts, Latent, Layer, Quantized, Rope
from backends.quantize import dequantize

Layout = Literal["channels", "plain"]
"""Layout of hidden states: (1, hidden, 1, T), which the Neural Engine prefers, or (1, T, hidden)."""
Policy = Literal["slice", "io", "onehot"]
"""Where keys and values are kept: in states of which a slice is replaced; in arrays of the host, which go in, and whose
new columns come out; or in states that are multiplied by one-hot masks."""

Kind = Literal["key", "value"]
KINDS: tuple[Kind, Kind] = ("key", "value")
"""What is cached."""

EMBEDDINGS = "embedding", "position_embedding"
BIAS = "relative_bias"
"""The canonical names of what the host looks up; biases are known by their ending."""

MASKED = -1e4
"""Added to hidden scores; with infinity, 0 * infinity could arise."""
NEVER = 1 << 30
"""A position that no query sees."""


@dataclass(frozen=True)
class Package:
    """One variant of a package of a decoder."""

    layout: Layout
    policy: Policy

    def __str__(self) -> str:
        return f"{self.layout}-{self.policy}"


@dataclass(frozen=True)
class Lowered:
    """What describes a lowered folder."""

    decoder: Decoder
    precision: str
    capacity: int
    """Tokens that the cache has room for."""
    chunk: int
    """Tokens that the function `prefill` reads per call."""

    @property
    def prompt(self) -> int:
        """Tokens that the function `encode` reads, padded: the whole context; 0 without an encoder."""
        return self.decoder.context_length if self.decoder.encoder else 0

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Lowered":
        """Read what `asdict` wrote."""
        for part in "layers", "encoder":
            facts["decoder"][part] = tuple(read_layer(layer) for layer in facts["decoder"][part])
        if experts := facts["decoder"]["experts"]:
            clamped = experts["clamped"] and Clamped(**experts["clamped"])
            facts["decoder"]["experts"] = Experts(**{**experts, "layers": tuple(experts["layers"]), "clamped": clamped})
        return cls(**{**facts, "decoder": Decoder(**facts["decoder"])})


def read_layer(facts: dict[str, Any]) -> Layer:
    """A layer, from JSON."""
    rope = facts["rope"]
    if rope:
        rope = Rope(tuple(rope["inverse_frequencies"]), rope["amplitude"])
    latent = facts["latent"] and Latent(**facts["latent"])
    tuples = {name: tuple(facts[name]) for name in ("alibi", "buckets")}
    return Layer(**{**facts, **tuples, "rope": rope, "latent": latent})


def ropes(decoder: Decoder) -> list[Rope]:
    """The distinct rotary embeddings of a decoder."""
    return list(dict.fromkeys(layer.rope for layer in decoder.layers if layer.rope))


def bias_input(name: str) -> str:
    """The input for the biases of a table, of all layers or of one."""
    *_, layer = "", *(part for part in name.split(".") if part.isdecimal())
    return f"bias_{layer}" if layer else "bias"


def attending_layers(decoder: Decoder, count: int) -> tuple[Layer, ...]:
    """The layers that attend in a function of `count` tokens: a prefill stops at the last layer's keys and values."""
    return decoder.layers if count == 1 or not decoder.layers[0].causal else decoder.layers[:-1]


def stacked_shape(layers: Sequence[Layer], capacity: int) -> tuple[int, int, int, int]:
    """The shape of all layers' keys, or values, in one array."""
    sizes = {(layer.kv_heads, layer.head_dim) for layer in layers}
    if len(sizes) > 1:
        raise BackendError("Core ML cannot run this model: its layers have heads of different sizes")
    heads, head_dim = sizes.pop()
    return len(layers), heads, capacity, head_dim


class Inputs:
    """Makes the inputs of a package's functions; of the weights these depend on the `tables` only.

    Tables are embeddings (rows, hidden) and biases (buckets, heads) by canonical name.
    """

    def __init__(self, lowered: Lowered, package: Package, tables: Mapping[str, np.ndarray | Quantized]):
        self.decoder, self.capacity, self.longest = lowered.decoder, lowered.capacity, lowered.prompt
        self.package, self.tables = package, tables
        self.reading_biases: dict[str, np.ndarray] = {}
        """The biases of the encoder's scores, the same for every prompt."""

    def prompt(self, tokens: np.ndarray) -> dict[str, np.ndarray]:
        """Inputs of the encoder for `tokens` (n,), padded."""
        positions = np.arange(self.longest)
        if not self.reading_biases:
            distance = positions[:, None] - positions
            self.reading_biases = self.biases("encoder.", self.decoder.encoder[0], distance)
        embedded = self.embedded("embedding", tokens, positions)
        return {"embedding": embedded, **self.reading_biases, "prompt_mask": self.prompt_mask(len(tokens))}

    def prompt_mask(self, length: int) -> np.ndarray:
        """The mask that hides the padding after a prompt of `length` tokens, (1, 1, 1, prompt)."""
        return np.where(np.arange(self.longest) < length, 0, MASKED)[None, None, None].astype(np.float32)

    def biases(self, part: str, layer: Layer, distance: np.ndarray) -> dict[str, np.ndarray]:
        """The biases of the encoder's ("encoder.") or the decoder's ("") scores, by input name."""
        names = [name for name in self.tables if name.endswith(BIAS) and name.startswith("encoder.") == bool(part)]
        return {bias_input(name): self.bias(name, layer, distance) for name in names}

    def bias(self, name: str, layer: Layer, distance: np.ndarray) -> np.ndarray:
        """The bias (1, heads, T, S) of scores at `distance` (T, S), from the table `name`."""
        place = np.clip(distance + (0 if layer.causal else len(layer.buckets) // 2), 0, len(layer.buckets) - 1)
        table = np.asarray(dequantize(self.tables[name]), np.float32)
        chosen: np.ndarray = table[np.array(layer.buckets)[place]]  # (T, S, heads)
        return chosen.transpose(2, 0, 1)[None]

    def arrays(self, tokens: np.ndarray, start: int, count: int, prompt: int = 0) -> dict[str, np.ndarray]:
        """Inputs for `tokens` (n,) at position `start`, padded to `count`; an encoder has read `prompt` tokens."""
        positions = np.arange(start, start + count)
        found = {name: self.embedded(name, tokens, positions) for name in EMBEDDINGS if name in self.tables}
        for i, rope in enumerate(ropes(self.decoder)):
            angle = np.outer(positions, rope.inverse_frequencies)  # (T, head_dim / 2)
            cos, sin = np.cos(angle) * rope.amplitudes, np.sin(angle) * rope.amplitudes
            found[f"cos_{i}"] = np.concatenate([cos, cos], axis=1)[None, None]
            found[f"sin_{i}"] = np.concatenate([-sin, sin], axis=1)[None, None]
        distance = positions[:, None] - self.key_positions(start, count)  # (T, keys)
        attending = attending_layers(self.decoder, count)
        for window in sorted({a.window for a in attending}):
            visible = (distance >= 0) & (distance < (window or NEVER))
            found[f"mask_{window}"] = np.where(visible, 0, MASKED)[None, None]
        if any(a.alibi for a in attending):
            found["distance"] = -np.maximum(distance, 0)[None, None]
        found |= self.biases("", self.decoder.layers[0], distance)
        if self.longest:
            found["prompt_mask"] = self.prompt_mask(prompt)
        if self.package.policy == "onehot":
            found["place"] = np.zeros((1, 1, self.capacity, count))
            found["place"][0, 0, positions[: len(tokens)], range(len(tokens))] = 1
        arrays = {name: np.asarray(array, np.float32) for name, array in found.items()}
        if self.package.policy == "slice":
            arrays["start"] = np.array([start], np.int32)
        return arrays

    def embedded(self, name: str, tokens: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Look up rows of a table, in the package's layout; zeros for padding."""
        table, own = self.tables[name], name == "embedding"
        chosen = np.zeros(len(positions), np.int64)
        chosen[: len(tokens)] = tokens if own else positions[: len(tokens)]
        rows = np.asarray(dequantize(table, chosen), np.float32)
        rows[len(tokens) :] = 0
        if own:
            rows *= np.float32(self.decoder.embedding_scale)
        return rows.T[None, :, None] if self.package.layout == "channels" else rows[None]

    def key_positions(self, start: int, count: int) -> np.ndarray:
        """The positions of the keys that a step sees: the cache's, followed by its own where these are apart."""
        cached = np.arange(self.capacity)
        if self.package.policy != "io":
            return cached
        return np.concatenate([np.where(cached < start, cached, NEVER), np.arange(start, start + count)])
