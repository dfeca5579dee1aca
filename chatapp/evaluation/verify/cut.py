"""A model cut to a layer of each kind and a small vocabulary, so that its graph can be checked without rounding.

At int8, rounding hides what a wrong GELU or epsilon does. The same lowering at float32, of a layer of each kind with
the model's own weights, shows it, and is small whatever the model's size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from backends.decoder import Attention, Decoder, Lazy, Quantized, Weight, Weights
from chatapp.evaluation.verify.prompts import LENGTH

VOCABULARY = 1024
MOST = 4
"""Layers."""
WINDOW = LENGTH // 3
"""Windows are cut too, so that the ordinary prompts go past them."""


class Cut(Lazy):
    """The weights of a cut decoder."""

    def __init__(self, weights: Weights, kept: Mapping[str, list[int]], vocabulary: int):
        self.weights, self.vocabulary = weights, vocabulary
        self.table: dict[str, str] = {name: name for name in weights if not name.startswith(tuple(kept))}
        for layers, places in kept.items():
            for i, layer in enumerate(places):
                prefix = f"{layers}{layer}."
                parts = [name.removeprefix(prefix) for name in weights if name.startswith(prefix)]
                self.table |= {f"{layers}{i}.{part}": prefix + part for part in parts}

    def __getitem__(self, name: str) -> Weight:
        weight = self.weights[self.table[name]]
        if name not in ("embedding", "lm_head"):
            return weight
        rows = slice(self.vocabulary)
        assert not isinstance(weight.values, Quantized)  # a checkpoint's weights are not rounded yet
        return Weight(weight.name, weight.values[rows], None if weight.bias is None else weight.bias[rows])


def cut(decoder: Decoder, weights: Weights) -> tuple[Decoder, Cut]:
    """The decoder and its weights, cut, and so its encoder where there is one."""
    kept = {"layers.": find_first_of_each(decoder.layers), "encoder.layers.": find_first_of_each(decoder.encoder)}
    layers, encoder = (
        tuple(replace(one[i], window=min(one[i].window, WINDOW)) for i in places)
        for one, places in zip((decoder.layers, decoder.encoder), kept.values(), strict=True)
    )
    vocabulary = min(max(VOCABULARY, decoder.start_token + 1), decoder.vocab_size)
    small = replace(decoder, layers=layers, encoder=encoder, vocab_size=vocabulary)
    return small, Cut(weights, kept, vocabulary)


def find_first_of_each(layers: Sequence[Attention]) -> list[int]:
    """The first layer of each kind; no more than `MOST`, where each has a scale of its own."""
    kinds: dict[Attention, int] = {}
    for i, attention in enumerate(layers):
        kinds.setdefault(attention, i)
    return list(kinds.values())[:MOST]
