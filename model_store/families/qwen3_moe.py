"""Qwen3's mixtures: Qwen3 with many small experts, none of them shared."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, qwen2_moe, qwen3, with_windows
from model_store.families.qwen3 import MODEL, PREFIX, TIED, UNUSED

LAYER = {**qwen3.LAYER, **qwen2_moe.EXPERTS}


def decoder(config: Config) -> Decoder:
    """Read config.json; either all layers have a window or none."""
    same = llama.decoder(config)
    window = config.get("sliding_window", 4096) if config.get("use_sliding_window") else 0
    count = len(same.layers)
    return replace(with_windows(same, [window or 0] * count), experts=qwen2_moe.experts(config, count, shared=False))
