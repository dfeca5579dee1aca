"""Qwen3's mixtures: Qwen3 with many small experts, none of them for all tokens."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, qwen2_moe, qwen3
from model_store.families.qwen3 import MODEL, PREFIX, TIED, UNUSED

LAYER = {**qwen3.LAYER, **qwen2_moe.EXPERTS}


def decoder(config: Config) -> Decoder:
    """Read config.json; a window is on every layer, if on any."""
    same = llama.decoder(config)
    window = config.get("sliding_window", 4096) if config.get("use_sliding_window") else 0
    layers = tuple(replace(attention, window=window or 0) for attention in same.layers)
    return replace(same, layers=layers, experts=qwen2_moe.experts(config, len(same.layers), shared=False))
