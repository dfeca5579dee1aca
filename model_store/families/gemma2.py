"""Gemma 2: norms before and after each branch, capped scores, and a window on every other layer."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import plus_one
from model_store.families import activation, gemma, windows, with_windows
from model_store.families.gemma import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **gemma.LAYER,
    "post_attention_norm": ("layers.{}.post_attention_layernorm", plus_one),
    "ffn_norm": ("layers.{}.pre_feedforward_layernorm", plus_one),
    "post_ffn_norm": ("layers.{}.post_feedforward_layernorm", plus_one),
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = gemma.decoder({**config, "hidden_act": "gelu"})
    layer = replace(
        same.layers[0],
        scale=config.get("query_pre_attn_scalar", 256) ** -0.5,
        softcap=config.get("attn_logit_softcapping", 50.0) or 0.0,
    )
    default = ["full_attention" if i % 2 else "sliding_attention" for i in range(len(same.layers))]
    each = windows(config, default, config.get("sliding_window", 4096))
    return replace(
        with_windows(replace(same, layers=(layer,)), each),
        activation=activation(config.get("hidden_activation") or "gelu_pytorch_tanh"),
        logit_softcap=config.get("final_logit_softcapping", 30.0) or 0.0,
    )
