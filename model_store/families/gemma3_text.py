"""Gemma 3: Gemma 2 with normalised queries and keys instead of caps, and another rotation where there is a window."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, rope
from model_store.checkpoint.weights import plus_one
from model_store.families import activation, alternate, gemma, gemma2, windows
from model_store.families.gemma import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **gemma2.LAYER,
    "q_norm": ("layers.{}.self_attn.q_norm", plus_one),
    "k_norm": ("layers.{}.self_attn.k_norm", plus_one),
}

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]


def decoder(config: Config) -> Decoder:
    """Read config.json; every sixth layer sees everything, unless `layer_types` says which do."""
    both = config.get("rope_parameters") or {}
    full = {**(both.get("full_attention") or {}), **(config.get("rope_scaling") or {})}
    near = both.get("sliding_attention") or {}
    same = gemma.decoder({**config, **UNSCALED, "hidden_act": "gelu"})
    head_dim, count = same.layers[0].head_dim, len(same.layers)
    attention = replace(same.layers[0], scale=config.get("query_pre_attn_scalar", 256) ** -0.5)
    own = {"max_position_embeddings": same.context_length}
    far = {**own, "rope_theta": config.get("rope_theta"), "rope_scaling": full}
    close = {**own, "rope_theta": config.get("rope_local_base_freq"), "rope_scaling": near}
    far_rope, near_rope = rope(far, head_dim, theta=1_000_000.0), rope(close, head_dim)
    default = alternate(config, count, 6)
    layers = (
        replace(attention, rope=near_rope if window else far_rope, window=window)
        for window in windows(config, default, config.get("sliding_window", 4096))
    )
    return replace(
        same,
        layers=tuple(layers),
        activation=activation(config.get("hidden_activation") or "gelu_pytorch_tanh"),
        logit_softcap=config.get("final_logit_softcapping") or 0.0,
    )
