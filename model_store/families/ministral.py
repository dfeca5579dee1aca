"""Ministral of 2024 is Mistral with windows on the layers that `layer_types` names."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, windows
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json; where it names no layers, all have a window."""
    same = llama.decoder(config)
    each = windows(config, ["sliding_attention"] * len(same.layers), config.get("sliding_window", 4096))
    layers = (replace(attention, window=window) for attention, window in zip(same.layers, each, strict=True))
    return replace(same, layers=tuple(layers))
