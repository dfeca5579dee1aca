"""Mellum 2 is a Qwen 3 mixture with windows, whose layers have another rotary base."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, far_and_near
from model_store.families import given, llama, qwen2_moe, sparse_layers, windows, with_windows
from model_store.families.qwen3_moe import LAYER, MODEL, PREFIX, TIED

UNUSED = (*llama.UNUSED, "mtp.*")


def decoder(config: Config) -> Decoder:
    """Read config.json; the layer for multi-token prediction (`mtp`) is not read."""
    config = given(config)
    same = llama.decoder({**config, **UNSCALED})
    count = len(same.layers)
    ropes = far_and_near(config, same.layers[0].head_dim, theta=500_000.0, near_theta=10_000.0, partial=1.0)
    each = windows(config, ["full_attention"] * count, config.get("sliding_window", 1024))
    experts = qwen2_moe.experts({"norm_topk_prob": True, **config}, count, shared=False)
    sparse = sparse_layers(config, count, range(count))
    return replace(with_windows(same, each, ropes), experts=replace(experts, layers=sparse))
