"""Gemma 3: Gemma 2 with query and key norms instead of caps, and another rotary base for windows."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, far_and_near
from model_store.checkpoint.weights import plus_one
from model_store.families import activation, alternate, gemma, gemma2, windows, with_windows
from model_store.families.gemma import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **gemma2.LAYER,
    "q_norm": ("layers.{}.self_attn.q_norm", plus_one),
    "k_norm": ("layers.{}.self_attn.k_norm", plus_one),
}


def decoder(config: Config) -> Decoder:
    """Read config.json; every sixth layer has no window, unless `layer_types` says otherwise."""
    same = gemma.decoder({**config, **UNSCALED, "hidden_act": "gelu"})
    layer = replace(same.layers[0], scale=config.get("query_pre_attn_scalar", 256) ** -0.5)
    ropes = far_and_near(config, layer.head_dim, theta=1_000_000.0, near_theta=10_000.0)
    each = windows(config, alternate(config, len(same.layers), 6), config.get("sliding_window", 4096))
    return replace(
        with_windows(replace(same, layers=(layer,)), each, ropes),
        activation=activation(config.get("hidden_activation") or "gelu_pytorch_tanh"),
        logit_softcap=config.get("final_logit_softcapping") or 0.0,
    )
