"""Gemma 2: norms on both sides of each branch, capped scores, and a window on every other layer."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint import Config
from model_store.families import activation, llama
from model_store.families.llama import PREFIX, UNUSED
from model_store.weights import plus_one

TIED = True
MODEL = {**llama.MODEL, "norm": ("norm", plus_one)}
LAYER = {
    **llama.LAYER,
    "attention_norm": ("layers.{}.input_layernorm", plus_one),
    "post_attention_norm": ("layers.{}.post_attention_layernorm", plus_one),
    "ffn_norm": ("layers.{}.pre_feedforward_layernorm", plus_one),
    "post_ffn_norm": ("layers.{}.post_feedforward_layernorm", plus_one),
}

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder(config)
    attention = replace(
        same.layers[0],
        scale=config["query_pre_attn_scalar"] ** -0.5,
        softcap=config.get("attn_logit_softcapping") or 0.0,
    )
    windows = [0 if i % 2 else config["sliding_window"] for i in range(len(same.layers))]
    return replace(
        same,
        layers=tuple(replace(attention, window=window) for window in windows),
        activation=activation(config.get("hidden_activation") or "gelu_pytorch_tanh"),
        embedding_scale=config["hidden_size"] ** 0.5,
        logit_softcap=config.get("final_logit_softcapping") or 0.0,
    )
