"""Sarvam of 30B: GLM 4.5 with fully rotary heads, and one matrix for queries, keys and values."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import given, glm4_moe, llama
from model_store.families.llama import PREFIX, TIED, UNUSED

MODEL = {**llama.MODEL, "embedding": "word_embeddings"}
LAYER = {
    **glm4_moe.LAYER,
    "qkv_proj": "layers.{}.attention.query_key_value",
    "o_proj": "layers.{}.attention.dense",
    "q_norm?": "layers.{}.attention.query_layernorm",
    "k_norm?": "layers.{}.attention.key_layernorm",
    "choice_bias": "layers.{}.mlp.gate.expert_bias",
}
CALLED = {"n_routed_experts": "num_experts", "n_shared_experts": "num_shared_experts"}
"""The publisher's names for fields of GLM's config.json."""
DEFAULTS: Config = {"head_dim": 64, "rope_theta": 8e6, "num_experts_per_tok": 6, "routed_scaling_factor": 2.5}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = {**DEFAULTS, **given(config)}
    config |= {name: config[called] for name, called in CALLED.items() if called in config}
    same = llama.decoder(config)
    return replace(same, experts=glm4_moe.experts(config, len(same.layers)))
