"""Nemotron 3 and Minitron: Arcee's feed-forward, layer norms that multiply by 1 + weight, partly rotary positions."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import plus_one, spread_rotary
from model_store.families import arcee, llama
from model_store.families.llama import PREFIX, TIED, UNUSED

MODEL = {**llama.MODEL, "norm": ("norm", plus_one)}
LAYER = {
    **arcee.LAYER,
    "attention_norm": ("layers.{}.input_layernorm", plus_one),
    "qkv_proj": (llama.LAYER["qkv_proj"], spread_rotary),
    "ffn_norm": ("layers.{}.post_attention_layernorm", plus_one),
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder({"hidden_act": "relu2", **config}, partial=0.5)
    return replace(same, norm="layer", epsilon=config.get("norm_eps", 1e-5))
