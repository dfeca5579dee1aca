"""Falcon-H1: Llama with Mamba-2 beside attention in every layer, and many factors.

Matrices' factors are multiplied into them while they are read; those of keys and of attention's input into its scale
and its output.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import given, granitemoehybrid, llama
from model_store.families.llama import PREFIX, TIED, UNUSED

ATTENDED, ANSWERED, GATES, UP, PARTS = 0, 1, 2, 3, slice(4, 9)
"""The places of factors in `gains`; the last are for the state's gates, values, keys, queries and steps."""


def times_attended(values: np.ndarray, layer: Layer) -> np.ndarray:
    return np.asarray(values, np.float32) * np.float32(layer.gains[ATTENDED])


def times_answered(values: np.ndarray, layer: Layer) -> np.ndarray:
    return np.asarray(values, np.float32) * np.float32(layer.gains[ANSWERED])


def times_gates(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Gate and up, each times its factor."""
    return times_each(np.split(values, 2), layer.gains[GATES : UP + 1])


def times_parts(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The parts of the state's matrix, in the published order, times their factors."""
    return times_each(granitemoehybrid.parts_of(values, layer), layer.gains[PARTS])


def times_each(parts: list[np.ndarray], gains: Sequence[float]) -> np.ndarray:
    pairs = zip(parts, gains, strict=True)
    return np.concatenate([np.asarray(part, np.float32) * np.float32(gain) for part, gain in pairs])


MODEL = {**llama.MODEL, "norm": "final_layernorm"}
LAYER = {
    **llama.LAYER,
    **granitemoehybrid.state_weights("layers.{0}.mamba"),
    "qkvz_proj": ("layers.{}.mamba.in_proj", times_parts, granitemoehybrid.queries_first),
    "rates_proj": ("layers.{}.mamba.in_proj", times_parts, granitemoehybrid.steps_alone),
    "o_proj": ("layers.{}.self_attn.o_proj", times_attended),
    "state_o_proj": ("layers.{}.mamba.out_proj", times_answered),
    "ffn_norm": "layers.{}.pre_ff_layernorm",
    "gate_up_proj": ("layers.{0}.feed_forward.gate_proj layers.{0}.feed_forward.up_proj", times_gates),
    "down_proj": "layers.{}.feed_forward.down_proj",
}
BIASES = "attention_bias", "mamba_proj_bias", "mlp_bias"
"""Biases that would need other factors than their matrices; no published model has them."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    size = config.get("mamba_d_ssm", 1024)
    config = {"rms_norm_eps": 1e-5, "mamba_norm_before_gate": True, **given(config)}
    normed = config.get("mamba_rms_norm", False)
    refused = [*BIASES, *(["mamba_norm_before_gate"] if normed else [])]
    for name in (each for each in refused if config.get(each)):
        raise UnsupportedCheckpoint(f"falcon_h1 with {name} (config.json) is not supported")
    same = llama.decoder(config)
    state = granitemoehybrid.state_of(config, size or config.get("mamba_expand", 2) * same.hidden_size)
    attention, read = same.layers[0], config.get("attention_in_multiplier", 1.0)
    layer = replace(
        attention,
        scale=attention.scale * config.get("key_multiplier", 1.0) * read**2,
        recurrence=state if normed else replace(state, epsilon=None),
        beside=True,
        gains=gains(config, read),
    )
    return replace(
        same,
        layers=(layer,) * len(same.layers),
        embedding_scale=config.get("embedding_multiplier", 1.0),
        output_scale=config.get("lm_head_multiplier", 1.0),
    )


def gains(config: Config, read: float) -> tuple[float, ...]:
    """The factors of matrices; attention's input is multiplied by `read`."""
    parts, entered = config.get("ssm_multipliers", [1.0] * 5), config.get("ssm_in_multiplier", 1.0)
    both = config.get("mlp_multipliers", [1.0] * 2)
    if (len(parts), len(both)) != (5, 2):
        raise ValueError("ssm_multipliers should be five numbers, and mlp_multipliers two")
    attended, answered = config.get("attention_out_multiplier", 1.0) * read, config.get("ssm_out_multiplier", 1.0)
    return (attended, answered, *both, *(entered * part for part in parts))
