"""Jamba: few layers attend, without positions, the others are Mamba; some have experts."""

from dataclasses import replace
from math import ceil

import numpy as np

from backends.decoder import Decoder, Experts, Layer, SelectiveState
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import Source, flattened
from model_store.families import given, kinds_of, llama, sparse_layers
from model_store.families.llama import PREFIX, TIED, UNUSED


def state_of(layer: Layer) -> SelectiveState:
    how = layer.recurrence
    assert isinstance(how, SelectiveState)  # no other layer has such weights
    return how


def steps_first(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The rows for steps, moved before those for keys and queries."""
    return values[: state_of(layer).rank]


def keys_alone(values: np.ndarray, layer: Layer) -> np.ndarray:
    how = state_of(layer)
    return values[how.rank : how.rank + how.size]


def queries_alone(values: np.ndarray, layer: Layer) -> np.ndarray:
    how = state_of(layer)
    return values[how.rank + how.size :]


def state_weights(state: str) -> dict[str, Source]:
    """Where the weights of a state are whose names begin with `state`."""
    return {
        "in_proj": f"{state}.in_proj",
        "convolution": (f"{state}.conv1d", flattened),
        "steps_down_proj": (f"{state}.x_proj", steps_first),
        "steps_proj": f"{state}.dt_proj",
        "keys_proj": (f"{state}.x_proj", keys_alone),
        "queries_proj": (f"{state}.x_proj", queries_alone),
        "decay": f"{state}.A_log",
        "skip": f"{state}.D",
    }


STATE, FORWARD = "layers.{0}.mamba", "layers.{0}.feed_forward"
MODEL = {**llama.MODEL, "norm": "final_layernorm"}
LAYER = {
    **llama.LAYER,
    "o_proj": f"layers.{{0}}.self_attn.o_proj={STATE}.out_proj",
    **state_weights(STATE),
    "steps_down_norm": f"{STATE}.dt_layernorm",
    "keys_norm": f"{STATE}.b_layernorm",
    "queries_norm": f"{STATE}.c_layernorm",
    "ffn_norm": "layers.{}.pre_ff_layernorm",
    "gate_up_proj": f"{FORWARD}.gate_proj {FORWARD}.up_proj",
    "down_proj": f"{FORWARD}.down_proj",
    "router": f"{FORWARD}.router",
    "experts.gate_up_proj": f"{FORWARD}.experts.{{1}}.gate_proj {FORWARD}.experts.{{1}}.up_proj",
    "experts.down_proj": f"{FORWARD}.experts.{{1}}.down_proj",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; by default the fifth of every eight layers attends."""
    config = {"num_key_value_heads": 8, "num_experts": 16, **given(config)}
    same = llama.decoder(config)
    count, size = len(same.layers), same.hidden_size
    attending = every(count, config.get("attn_layer_period", 8), config.get("attn_layer_offset", 4))
    kinds = ["full_attention" if i in attending else "linear_attention" for i in range(count)]
    rank = config.get("mamba_dt_rank", "auto")
    state = SelectiveState(
        channels=config.get("mamba_expand", 2) * size,
        size=config.get("mamba_d_state", 16),
        rank=ceil(size / 16) if rank == "auto" else rank,
        width=config.get("mamba_d_conv", 4),
    )
    alone = replace(same.layers[0], rope=None)
    of_kind = {"full_attention": alone, "linear_attention": replace(alone, recurrence=state)}
    layers = tuple(of_kind[kind] for kind in kinds_of(config, kinds, "linear_attention"))
    return replace(same, layers=layers, experts=experts(config, count) if config["num_experts"] > 1 else None)


def experts(config: Config, count: int) -> Experts:
    """The experts, in every second layer unless config.json says otherwise."""
    default = every(count, config.get("expert_layer_period", 2), config.get("expert_layer_offset", 1))
    return Experts(
        layers=sparse_layers(config, count, default),
        count=config["num_experts"],
        chosen=config.get("num_experts_per_tok", 2),
        size=config["intermediate_size"],
        normalised=False,
    )


def every(count: int, period: int, offset: int) -> list[int]:
    """The indices of every `period`-th layer, from `offset` on."""
    return [i for i in range(count) if i % period == offset]
