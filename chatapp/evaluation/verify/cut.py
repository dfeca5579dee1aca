"""A cut model: one layer of each kind and a small vocabulary, to check the graph without rounding.

At int8, rounding hides a wrong GELU or epsilon. The same lowering at float32, with one layer of each kind and the
model's own weights, shows it, and is small whatever the model's size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Layer, Lazy, Quantized, Weight, Weights
from chatapp.evaluation.verify.prompts import LENGTH

VOCABULARY = 1024
MOST = 4
"""Most layers."""
WINDOW = LENGTH // 3
"""Windows are cut too, so that ordinary prompts exceed them."""


class Cut(Lazy):
    """The weights of a cut decoder."""

    def __init__(self, weights: Weights, kept: Mapping[str, list[int]], vocabulary: int, per_layer_size: int):
        self.weights, self.vocabulary = weights, vocabulary
        self.owns = np.array([place * per_layer_size + i for place in kept["layers."] for i in range(per_layer_size)])
        """Indices of the kept layers' elements in the embeddings for all layers."""
        self.table: dict[str, str] = {name: name for name in weights if not name.startswith(tuple(kept))}
        for layers, places in kept.items():
            for i, layer in enumerate(places):
                prefix = f"{layers}{layer}."
                parts = [name.removeprefix(prefix) for name in weights if name.startswith(prefix)]
                self.table |= {f"{layers}{i}.{part}": prefix + part for part in parts}

    def __getitem__(self, name: str) -> Weight:
        weight = self.weights[self.table[name]]
        values, bias, rows = weight.values, weight.bias, slice(self.vocabulary)
        if name not in ("embedding", "lm_head", "per_layer_embedding", "per_layer_proj"):
            return weight
        assert not isinstance(values, Quantized)  # a checkpoint's weights are not rounded
        if name.startswith("per_layer"):
            return Weight(weight.name, values[self.owns] if name == "per_layer_proj" else values[rows, self.owns])
        return Weight(weight.name, values[rows], None if bias is None else bias[rows])


def cut(decoder: Decoder, weights: Weights) -> tuple[Decoder, Cut]:
    """Cut a decoder, and its encoder if there is one, with their weights."""
    kept = {"layers.": find_first_of_each(decoder.layers), "encoder.layers.": find_first_of_each(decoder.encoder)}
    layers, encoder = (
        tuple(replace(one[i], window=min(one[i].window, WINDOW), kv_layer=find_maker(one, i)) for i in places)
        for one, places in zip((decoder.layers, decoder.encoder), kept.values(), strict=True)
    )
    vocabulary = min(max(VOCABULARY, decoder.start_token + 1), decoder.vocab_size)
    small = replace(decoder, layers=layers, encoder=encoder, vocab_size=vocabulary)
    return small, Cut(weights, kept, vocabulary, decoder.per_layer_size)


def find_first_of_each(layers: Sequence[Layer]) -> list[int]:
    """The indices of the first layer of each kind, at most `MOST`."""
    kinds: dict[Layer, int] = {}
    for i, layer in enumerate(layers):
        kinds.setdefault(layer, i)
    return list(kinds.values())[:MOST]


def find_maker(layers: Sequence[Layer], i: int) -> int | None:
    """The index, among kept layers, of the one whose keys and values layer `i` attends to."""
    maker = layers[i].kv_layer
    return None if maker is None else [*dict.fromkeys(layers)].index(layers[maker])
