"""A model cut to a layer of each kind and a small vocabulary, so that its graph can be checked without rounding.

At int8, rounding hides what a wrong GELU or epsilon does. The same lowering at float32, of a layer of each kind with
the model's own weights, shows it, and is small whatever the model's size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Layer, Lazy, Quantized, Weight, Weights
from chatapp.evaluation.verify.prompts import LENGTH

VOCABULARY = 1024
MOST = 4
"""Layers."""
WINDOW = LENGTH // 3
"""Windows are cut too, so that the ordinary prompts go past them."""


class Cut(Lazy):
    """The weights of a cut decoder."""

    def __init__(self, weights: Weights, kept: Mapping[str, list[int]], vocabulary: int, per_layer_size: int):
        self.weights, self.vocabulary = weights, vocabulary
        self.owns = np.array([place * per_layer_size + i for place in kept["layers."] for i in range(per_layer_size)])
        """Elements of the embeddings of all layers that are those of layers that are kept."""
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
        assert not isinstance(values, Quantized)  # a checkpoint's weights are not rounded yet
        if name.startswith("per_layer"):
            return Weight(weight.name, values[self.owns] if name == "per_layer_proj" else values[rows, self.owns])
        return Weight(weight.name, values[rows], None if bias is None else bias[rows])


def cut(decoder: Decoder, weights: Weights) -> tuple[Decoder, Cut]:
    """The decoder and its weights, cut, and so its encoder where there is one."""
    kept = {"layers.": find_first_of_each(decoder.layers), "encoder.layers.": find_first_of_each(decoder.encoder)}
    layers, encoder = (
        tuple(replace(one[i], window=min(one[i].window, WINDOW), kv_layer=find_maker(one, i)) for i in places)
        for one, places in zip((decoder.layers, decoder.encoder), kept.values(), strict=True)
    )
    vocabulary = min(max(VOCABULARY, decoder.start_token + 1), decoder.vocab_size)
    small = replace(decoder, layers=layers, encoder=encoder, vocab_size=vocabulary)
    return small, Cut(weights, kept, vocabulary, decoder.per_layer_size)


def find_first_of_each(layers: Sequence[Layer]) -> list[int]:
    """The first layer of each kind; no more than `MOST`, where each has a scale of its own."""
    kinds: dict[Layer, int] = {}
    for i, layer in enumerate(layers):
        kinds.setdefault(layer, i)
    return list(kinds.values())[:MOST]


def find_maker(layers: Sequence[Layer], i: int) -> int | None:
    """Where, of those that are kept, the one is whose keys and values the layer `i` attends to."""
    maker = layers[i].kv_layer
    return None if maker is None else [*dict.fromkeys(layers)].index(layers[maker])
