"""GPT-NeoX and Pythia: rotary positions on part of each head, attention and feed-forward side by side."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import group_heads, spread_rotary
from model_store.families import llama

PREFIX = "gpt_neox."
TIED = False
UNUSED = (".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq")
MODEL = {"embedding": "embed_in", "norm": "final_layer_norm", "lm_head": "embed_out=lm_head"}
LAYER = {
    "attention_norm": "layers.{}.input_layernorm",
    "qkv_proj": ("layers.{}.attention.query_key_value", group_heads, spread_rotary),
    "o_proj": "layers.{}.attention.dense",
    "ffn_norm": "layers.{}.post_attention_layernorm",
    "up_proj": "layers.{}.mlp.dense_h_to_4h",
    "down_proj": "layers.{}.mlp.dense_4h_to_h",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    spelled = {"rope_theta": config.get("rotary_emb_base"), "partial_rotary_factor": config.get("rotary_pct", 0.25)}
    own = {**spelled, "num_key_value_heads": None, "head_dim": None}
    return replace(
        llama.decoder({"hidden_act": "gelu", **config, **own}, partial=0.25),
        norm="layer",
        epsilon=config.get("layer_norm_eps", 1e-5),
        parallel=config.get("use_parallel_residual", True),
    )
