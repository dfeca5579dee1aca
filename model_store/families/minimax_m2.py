"""MiniMax M2: Mixtral with OLMo 2's query and key norms, partly rotary, and experts chosen by sigmoids."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import spread_rotary
from model_store.families import given, llama, mixtral
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **mixtral.LAYER,
    "qkv_proj": (llama.LAYER["qkv_proj"], spread_rotary),
    "q_norm": ("layers.{}.self_attn.q_norm", spread_rotary),
    "k_norm": ("layers.{}.self_attn.k_norm", spread_rotary),
    "choice_bias": "layers.{}.block_sparse_moe.e_score_correction_bias",
}
DEFAULTS: Config = {"head_dim": 128, "rope_theta": 5_000_000.0, "num_local_experts": 256, "num_experts_per_tok": 8}
"""What config.json may leave out."""


def decoder(config: Config) -> Decoder:
    """Read config.json, which has the number or the share of rotary elements."""
    config = {**DEFAULTS, **given(config)}
    turning = config.get("rotary_dim", config["head_dim"])
    same = llama.decoder(config, partial=turning / config["head_dim"])
    experts = replace(mixtral.experts(config, len(same.layers)), scores="sigmoid")
    return replace(same, layers=tuple(replace(a, qk_norm="heads") for a in same.layers), experts=experts)
