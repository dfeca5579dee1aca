"""Mistral is Llama with a window on every layer, in its first version."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json; `sliding_window` is null from the second version on, and 4,096 where it is not mentioned."""
    same = llama.decoder(config)
    window = config.get("sliding_window", 4096) or 0
    return replace(same, layers=tuple(replace(attention, window=window) for attention in same.layers))
