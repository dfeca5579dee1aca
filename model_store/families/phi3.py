"""Phi 3 and 4-mini: Llama with fused projections, a window, and partly rotary positions in the newest."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import spread_rotary
from model_store.families import llama, with_windows
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    "qkv_proj": ("layers.{}.self_attn.qkv_proj", spread_rotary),
    "gate_up_proj": "layers.{}.mlp.gate_up_proj",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    usual = {"original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
    same = llama.decoder({**usual, **config, "rope_scaling": scaling(config)}, partial=1.0)
    return with_windows(same, [config.get("sliding_window") or 0] * len(same.layers))


def scaling(config: Config) -> Config:
    """The scaling of positions; the first Phi 3 call LongRoPE "su" and "yarn"."""
    found = {**(config.get("rope_scaling") or config.get("rope_parameters") or {})}
    kind = found.get("rope_type") or found.get("type")
    return {**found, "rope_type": "longrope"} if kind in ("su", "yarn") else found
