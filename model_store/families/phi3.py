"""Phi 3 and 4-mini: Llama with fused projections, a window, and partly rotary positions in the newest."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, rope
from model_store.checkpoint.weights import spread_rotary
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    "qkv_proj": ("layers.{}.self_attn.qkv_proj", spread_rotary),
    "gate_up_proj": "layers.{}.mlp.gate_up_proj",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder({**config, **UNSCALED})
    window = config.get("sliding_window") or 0
    scaled = {"original_max_position_embeddings": 4096, **config, "rope_scaling": scaling(config)}
    turned = rope(scaled, same.layers[0].head_dim, partial=config.get("partial_rotary_factor", 1.0))
    layers = tuple(replace(attention, rope=turned, window=window) for attention in same.layers)
    return replace(same, layers=layers, epsilon=config.get("rms_norm_eps", 1e-5))


def scaling(config: Config) -> Config:
    """How positions are scaled; the first Phi 3 call LongRoPE "su" and "yarn"."""
    found = {**(config.get("rope_scaling") or config.get("rope_parameters") or {})}
    kind = found.get("rope_type") or found.get("type")
    return {**found, "rope_type": "longrope"} if kind in ("su", "yarn") else found
