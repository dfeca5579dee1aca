"""Persimmon: GPT-NeoX with a squared ReLU, sequential branches, and layer norms on queries and keys."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import group_heads, spread_rotary
from model_store.families import gpt_neox
from model_store.families.llama import PREFIX, TIED, UNUSED

MODEL = {"embedding": "embed_tokens", "norm": "final_layernorm", "lm_head": "lm_head"}
LAYER = {
    **gpt_neox.LAYER,
    "qkv_proj": ("layers.{}.self_attn.query_key_value", group_heads, spread_rotary),
    "q_norm": ("layers.{}.self_attn.q_layernorm", spread_rotary),
    "k_norm": ("layers.{}.self_attn.k_layernorm", spread_rotary),
    "o_proj": "layers.{}.self_attn.dense",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    named = {"rotary_emb_base": config.get("rope_theta"), "rotary_pct": config.get("partial_rotary_factor", 0.5)}
    return gpt_neox.decoder({"hidden_act": "relu2", **config, **named, "use_parallel_residual": False})
