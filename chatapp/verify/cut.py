"""A model cut to a layer of each kind and a small vocabulary, so that its graph can be checked without rounding.

At int8, rounding hides what a wrong GELU or epsilon does. The same lowering at float32, of a layer of each kind with
the model's own weights, shows it, and is small whatever the model's size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from backends.decoder import Attention, Decoder, Quantized, Weight, Weights
from chatapp.verify.prompts import LENGTH

VOCABULARY = 1024
WINDOW = LENGTH // 3
"""Windows are cut too, so that the ordinary prompts go past them."""


class Cut(Mapping[str, Weight]):
    """The weights of a cut decoder."""

    def __init__(self, weights: Weights, kept: list[int], vocabulary: int):
        self.weights, self.vocabulary = weights, vocabulary
        self.sources = {name: name for name in weights if not name.startswith("layers.")}
        for i, layer in enumerate(kept):
            prefix = f"layers.{layer}."
            parts = [name.removeprefix(prefix) for name in weights if name.startswith(prefix)]
            self.sources |= {f"layers.{i}.{part}": prefix + part for part in parts}

    def __iter__(self) -> Iterator[str]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)

    def __contains__(self, name: object) -> bool:
        return name in self.sources

    def __getitem__(self, name: str) -> Weight:
        weight = self.weights[self.sources[name]]
        if name not in ("embedding", "lm_head"):
            return weight
        rows = slice(self.vocabulary)
        assert not isinstance(weight.values, Quantized)  # a checkpoint's weights are not rounded yet
        return Weight(weight.name, weight.values[rows], None if weight.bias is None else weight.bias[rows])


def cut(decoder: Decoder, weights: Weights) -> tuple[Decoder, Cut]:
    """The decoder and its weights, cut; every layer is kept where there is an encoder, which has layers of its own."""
    kinds: dict[Attention, int] = {}
    for i, attention in enumerate(decoder.layers):
        kinds.setdefault(attention, i)
    kept = list(range(len(decoder.layers))) if decoder.encoder else list(kinds.values())
    layers = tuple(
        replace(attention, window=min(attention.window, WINDOW)) for attention in (decoder.layers[i] for i in kept)
    )
    vocabulary = min(max(VOCABULARY, decoder.start_token + 1), decoder.vocab_size)
    return replace(decoder, layers=layers, vocab_size=vocabulary), Cut(weights, kept, vocabulary)
