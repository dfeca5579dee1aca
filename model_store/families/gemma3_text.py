"""Gemma 3: Gemma 2 with normalised queries and keys instead of caps, and another rotation where there is a window."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint import Config
from model_store.families import gemma, gemma2
from model_store.families.gemma import MODEL, PREFIX, TIED, UNUSED
from model_store.rope import rope
from model_store.weights import plus_one

LAYER = {
    **gemma2.LAYER,
    "q_norm": ("layers.{}.self_attn.q_norm", plus_one),
    "k_norm": ("layers.{}.self_attn.k_norm", plus_one),
}

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]


def decoder(config: Config) -> Decoder:
    """Read config.json; every sixth layer sees everything, unless `layer_types` says which do."""
    both = config.get("rope_parameters") or {}
    far = {"rope_theta": config.get("rope_theta", 1_000_000.0), "rope_scaling": config.get("rope_scaling")}
    near = {"rope_theta": config.get("rope_local_base_freq", 10_000.0)}
    same = gemma.decoder({**config, "rope_parameters": None, "rope_scaling": None})
    head_dim = same.layers[0].head_dim
    scaled = replace(same.layers[0], scale=config.get("query_pre_attn_scalar", 256) ** -0.5)
    full = replace(scaled, rope=rope({"rope_parameters": both.get("full_attention"), **far}, head_dim))
    local = {"rope_parameters": both.get("sliding_attention"), **near}
    window = replace(scaled, rope=rope(local, head_dim), window=config.get("sliding_window", 4096))
    period = config.get("sliding_window_pattern") or 6
    default = ["sliding_attention" if (i + 1) % period else "full_attention" for i in range(len(same.layers))]
    kinds = config.get("layer_types") or default
    return replace(same, layers=tuple(full if kind == "full_attention" else window for kind in kinds))
