"""Granite 4, with experts and without: Granite with Mamba-2 in most or no layers."""

import math
from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Layer, Mamba
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import Source, flattened
from model_store.errors import UnsupportedCheckpoint, cut
from model_store.families import given, granite, granitemoeshared, kinds_of
from model_store.families.granite import MODEL, PREFIX, TIED, UNUSED

STATE = "layers.{0}.mamba"
NAMED = {"attention": "full_attention", "mamba": "linear_attention"}
"""Names of layer kinds in config.json, now and earlier."""
NO_LIMITS = [0.0, math.inf], [0.0, {"__float__": "Infinity"}]
"""Values in config.json that mean no limit of steps: JSON has no infinity."""


def parts_of(values: np.ndarray, layer: Layer) -> list[np.ndarray]:
    """Split a matrix's rows into gates, values, keys, queries and steps."""
    how = layer.recurrence
    assert isinstance(how, Mamba)  # only these layers have it
    keys = how.key_heads * how.key_size
    return np.split(values, np.cumsum([how.value_elements, how.value_elements, keys, keys]))


def queries_first(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder z, x, B, C and the steps to C, B, x, z."""
    return np.concatenate(parts_of(values, layer)[3::-1])


def steps_alone(values: np.ndarray, layer: Layer) -> np.ndarray:
    return parts_of(values, layer)[4]


def channels_first(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder x, B, C to C, B, x."""
    how = layer.recurrence
    assert isinstance(how, Mamba)
    keys = how.key_heads * how.key_size
    return np.concatenate(np.split(values, [how.value_elements, how.value_elements + keys])[::-1])


def state_weights(state: str) -> dict[str, Source]:
    """The sources of a state's weights, whose names begin with `state`."""
    return {
        "qkvz_proj": (f"{state}.in_proj", queries_first),
        "rates_proj": (f"{state}.in_proj", steps_alone),
        "convolution": (f"{state}.conv1d", flattened, channels_first),
        "decay": f"{state}.A_log",
        "decay_bias": f"{state}.dt_bias",
        "skip": f"{state}.D",
        "value_norm": f"{state}.norm",
    }


LAYER = {
    **granitemoeshared.LAYER,
    "o_proj": f"layers.{{0}}.self_attn.o_proj={STATE}.out_proj",
    **state_weights(STATE),
}


def decoder(config: Config) -> Decoder:
    """Read config.json; all layers are Mamba-2, unless `layer_types` says otherwise."""
    config = given(config)
    same = granitemoeshared.decoder(config) if config.get("num_local_experts", 8) else granite.decoder(config)
    kinds = config.get("layer_types") or config.get("layers_block_type") or ["mamba"] * len(same.layers)
    default = ["linear_attention"] * len(same.layers)
    kinds = kinds_of({"layer_types": [NAMED.get(kind, kind) for kind in kinds]}, default, "linear_attention")
    turns = config.get("position_embedding_type") == "rope"
    attending = same.layers[0] if turns else replace(same.layers[0], rope=None)
    of_kind = {"full_attention": attending}
    if "linear_attention" in kinds:
        state = state_of(config, config.get("mamba_expand", 2) * same.hidden_size)
        of_kind["linear_attention"] = replace(attending, rope=None, recurrence=state)
    return replace(same, layers=tuple(of_kind[kind] for kind in kinds))


def refuse_limits(config: Config) -> None:
    """Raise UnsupportedCheckpoint if a state's steps are limited."""
    limits = config.get("time_step_limit", NO_LIMITS[0])
    if limits not in NO_LIMITS:
        raise UnsupportedCheckpoint(f"time_step_limit (config.json) is {cut(limits)}: limits are not supported")


def state_of(config: Config, size: int) -> Mamba:
    """The state of layers whose values have `size` elements together."""
    refuse_limits(config)
    heads = config.get("mamba_n_heads", 128)
    return Mamba(
        key_heads=config.get("mamba_n_groups", 1),
        value_heads=heads,
        key_size=config.get("mamba_d_state", 256),
        value_size=size // heads,
        width=config.get("mamba_d_conv", 4),
        epsilon=config.get("rms_norm_eps", 1e-6),
    )
