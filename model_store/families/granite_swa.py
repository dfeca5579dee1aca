"""Granite with windows, attention sinks, and a rotary base for each layer, or none."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import rope
from model_store.families import given, granite, llama, windows
from model_store.families.granite import MODEL, PREFIX, UNUSED

TIED = True
SINKS = {"sinks": "layers.{}.self_attn.sinks"}
LAYER = {**llama.LAYER, **SINKS}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    return near_and_far(granite.decoder({"rms_norm_eps": 1e-5, **config}), config)


def near_and_far(same: Decoder, config: Config) -> Decoder:
    """The decoder with windows on all layers but every fourth, unless `layer_types` says otherwise.

    `layer_rope_theta` has each layer's rotary base, or 0 for no positions.
    """
    count, stated = len(same.layers), config.get("rope_scaling") or config.get("rope_parameters") or {}
    default = ["sliding_attention" if i % 4 else "full_attention" for i in range(count)]
    each = windows(config, default, config.get("sliding_window", 128))
    bases = config.get("layer_rope_theta") or [None] * count
    if len(bases) != count:
        raise ValueError(f"layer_rope_theta names {len(bases)} layers, there are {count}")

    def turned(base: float) -> Config:
        return {**config, "rope_scaling": None, "rope_parameters": {**stated, "rope_theta": base}}

    ropes = {base: rope(turned(base), same.layers[0].head_dim) for base in bases if base} | {0: None}
    layers = (
        replace(layer, window=window, rope=layer.rope if base is None else ropes[base])
        for layer, window, base in zip(same.layers, each, bases, strict=True)
    )
    return replace(same, layers=tuple(layers))
