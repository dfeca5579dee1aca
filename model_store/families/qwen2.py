"""Qwen2 is Llama with biases on q, k and v."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint import Config
from model_store.families import llama
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]


def decoder(config: Config) -> Decoder:
    """Read config.json; the later layers have a window only when `use_sliding_window` says so."""
    same = llama.decoder(config)
    if not config.get("use_sliding_window"):
        return same
    first, window = config["max_window_layers"], config["sliding_window"]
    layers = (replace(a, window=window if i >= first else 0) for i, a in enumerate(same.layers))
    return replace(same, layers=tuple(layers))
