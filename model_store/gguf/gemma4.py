"""Gemma 4 in GGUF files: differing layers, and per-layer embeddings."""

import math
from collections.abc import Collection, Mapping

from model_store.checkpoint.weights import Source
from model_store.families.gemma4_text import halve_power
from model_store.gguf.adjustments import Fields

KEYS = {
    "attention.key_length_swa": "key_length_swa",
    "attention.value_length_swa": "value_length_swa",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "attention.sliding_window": "sliding_window",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "final_logit_softcapping": "final_logit_softcapping",
    "rope.dimension_count_swa": "turning_swa",
    "rope.freq_base_swa": "theta_swa",
}
EACH = {"attention.head_count_kv": "kv_heads"}
MODEL: Mapping[str, Source] = {
    "per_layer_embedding": "per_layer_token_embd",
    "per_layer_proj": "per_layer_model_proj",
    "per_layer_norm": ("per_layer_proj_norm", halve_power),
}
LAYER: Mapping[str, Source] = {
    "per_layer_gate": "blk.{}.inp_gate",
    "per_layer_out": "blk.{}.proj",
    "post_per_layer_norm": "blk.{}.post_norm",
    "scalar": "blk.{}.layer_output_scale",
}
STILL = 1e29
"""The least divisor of frequencies for elements that do not rotate."""


def seen(names: Collection[str]) -> Fields:
    """Whether values are the keys, which only missing tensors tell."""
    keys = (name for name in names if name.endswith(".attn_k.weight"))
    return {"attention_k_eq_v": any(name.replace("attn_k", "attn_v") not in names for name in keys)}


def adjust(config: Fields) -> None:
    """Each layer's heads, and their rotary part."""
    kinds, near = config.get("layer_types"), config.pop("key_length_swa", None)
    turning = config.pop("turning_swa", near)
    if not kinds or len(kinds) != config["num_hidden_layers"]:
        raise ValueError("it does not tell of each layer whether it has a window (attention.sliding_window_pattern)")
    if near is None or config.pop("value_length_swa", near) != near or turning != near:
        raise ValueError(
            "heads of layers with windows have no size, or two, or turn in part (attention.key_length_swa)"
        )
    heads = config.pop("kv_heads", None) or [config.get("num_key_value_heads")] * len(kinds)
    if len(heads) != len(kinds) or None in heads:
        raise ValueError("it does not tell the key-value heads of each layer (attention.head_count_kv)")
    sizes = {"sliding_attention": near, "full_attention": config["head_dim"]}
    config["per_layer_config"] = {
        str(i): {"head_dim": sizes[kind], "num_key_value_heads": count}
        for i, (kind, count) in enumerate(zip(kinds, heads, strict=True))
    }
    theta = config.get("rope_theta")
    config["rope_parameters"] = {
        "sliding_attention": {"rope_theta": config.pop("theta_swa", theta)},
        "full_attention": {
            "rope_type": "proportional",
            "rope_theta": theta,
            "partial_rotary_factor": share(config.pop("rope_scaling")),
        },
    }
    config["rope_scaling"] = None
    config.setdefault("hidden_size_per_layer_input", 0)


def share(scaling: Fields | None) -> float:
    """The rotary share of a head, from the frequencies' divisors."""
    factors = (scaling or {}).get("short_factor", [1.0])
    count = factors.count(1.0)
    if any(factor != 1 for factor in factors[:count]) or any(factor < STILL for factor in factors[count:]):
        raise ValueError("its positions are stretched otherwise than by leaving elements alone (rope_freqs)")
    return count / len(factors) if count == len(factors) else math.nextafter(count / len(factors), 1)
