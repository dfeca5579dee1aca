"""The weights of recurrent layers in GGUF files."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from backends.decoder import DeltaNet, Layer
from model_store.checkpoint.weights import Source, flat
from model_store.families import jamba
from model_store.families.granitemoehybrid import channels_first, queries_first, steps_alone

KEYS = "ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank"
"""Tokens of the convolution, size of a key, heads of keys, heads of values."""


def sizes(*fields: str) -> dict[str, str]:
    """The keys for the sizes of states, with their fields of config.json, except the values' total."""
    return {**dict(zip(KEYS, fields, strict=True)), "ssm.inner_size": "inner_size"}


DELTA = sizes("linear_conv_kernel_dim", "linear_key_head_dim", "linear_num_key_heads", "linear_num_value_heads")
MAMBA_SIZES = sizes("mamba_d_conv", "mamba_d_state", "mamba_n_groups", "mamba_n_heads")
BLOCK_SIZES = sizes("conv_kernel", "ssm_state_size", "n_groups", "mamba_num_heads")
"""The sizes in Nemotron's files."""
SELECTIVE_SIZES = {
    "ssm.conv_kernel": "mamba_d_conv",
    "ssm.state_size": "mamba_d_state",
    "ssm.time_step_rank": "mamba_dt_rank",
    "ssm.inner_size": "inner_size",
    "feed_forward_length": "intermediate_size",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
}
"""In Jamba's files."""
SIZES = {**DELTA, "full_attention_interval": "full_attention_interval"}


def take_values(config: dict[str, Any], known: Mapping[str, str]) -> int:  # Any: config.json's
    """Remove the total size of a token's values from the fields; ValueError if a size is missing."""
    if missing := [key for key, field in known.items() if config.get(field, 0) < 1]:
        raise ValueError(f"it does not tell the sizes of its states ({', '.join(missing)})")
    return int(config.pop("inner_size"))


def adjust(config: dict[str, Any]) -> None:  # Any: config.json's
    """The size of a value."""
    config["linear_value_head_dim"] = take_values(config, DELTA) // config["linear_num_value_heads"]


def adjust_mamba(config: dict[str, Any]) -> None:  # Any: config.json's
    """The sizes of states and experts; these have no rotation."""
    if config.pop("turns", True):
        raise ValueError("its heads turn (rope.scaling.finetuned), as Bamba's do and Granite's do not")
    config["mamba_expand"], rest = divmod(take_values(config, MAMBA_SIZES), config["hidden_size"])
    if rest:
        raise ValueError("ssm.inner_size is no multiple of embedding_length")
    config["num_local_experts"] = config.pop("num_experts", 0)
    size = config.get("moe_intermediate_size", 0)
    config["intermediate_size"] = size
    config["shared_intermediate_size"] = config.get("shared_expert_intermediate_size") or size


def adjust_beside(config: dict[str, Any]) -> None:  # Any: config.json's
    """The total size of values; factors are in the matrices already."""
    config["mamba_d_ssm"], config["mamba_norm_before_gate"] = take_values(config, MAMBA_SIZES), False


def normed(names: Collection[str]) -> dict[str, Any]:  # Any: config.json's
    """Whether the state's output is normalised, which only tensors tell."""
    return {"mamba_rms_norm": "blk.0.ssm_norm.weight" in names}


def adjust_selective(config: dict[str, Any]) -> None:  # Any: config.json's
    """The ratio of channels to the residual's size."""
    known = {key: field for key, field in SELECTIVE_SIZES.items() if key.startswith("ssm.")}
    config["mamba_expand"], rest = divmod(take_values(config, known), config["hidden_size"])
    if rest:
        raise ValueError("ssm.inner_size is no multiple of embedding_length")
    config.setdefault("num_experts", 0)


def mixing(names: Collection[str]) -> dict[str, Any]:  # Any: config.json's
    """The layers with experts, which only tensors tell."""
    count = sum(name.endswith(".attn_norm.weight") for name in names)
    kinds = ["sparse" if f"blk.{i}.ffn_gate_inp.weight" in names else "dense" for i in range(count)]
    return {"mlp_layer_types": kinds}


def adjust_blocks(config: dict[str, Any]) -> None:  # Any: config.json's
    """Each block's kind, and the sizes of states."""
    lengths, kinds = config.pop("lengths", []), config.pop("layer_types", [])
    if not len(lengths) == len(kinds) == config["num_hidden_layers"]:
        raise ValueError("it does not tell what each block is (feed_forward_length, attention.head_count_kv)")
    config["layers_block_type"] = ["mlp" if one else kind for one, kind in zip(lengths, kinds, strict=True)]
    config["mamba_head_dim"] = take_values(config, BLOCK_SIZES) // config["mamba_num_heads"]
    config["layer_norm_epsilon"] = config["rms_norm_eps"]


def by_key(values: np.ndarray, how: DeltaNet, size: int) -> np.ndarray:
    """Reorder value heads that cycle through the key heads to value heads grouped by key head."""
    repeats, rest = how.value_heads // how.key_heads, values.shape[1:]
    return values.reshape(-1, repeats, how.key_heads, size, *rest).swapaxes(1, 2).reshape(values.shape)


def values_by_key(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The same for values, after all queries and keys, and for gates if they follow."""
    how = delta_of(layer)
    keys = 2 * how.key_heads * how.key_size
    return np.concatenate([values[:keys], by_key(values[keys:], how, how.value_size)])


def heads_by_key(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The same for one number or row per head."""
    return by_key(values, delta_of(layer), 1)


def columns_by_key(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The same for columns, in delta nets."""
    if not isinstance(how := layer.recurrence, DeltaNet):
        return values
    repeats = how.value_heads // how.key_heads
    return values.reshape(len(values), repeats, how.key_heads, -1).swapaxes(1, 2).reshape(values.shape)


def logarithms(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The logarithms of rates, which files have negated."""
    if not (values < 0).all():
        raise ValueError("rates of a decay that are not below 0")
    return np.log(-np.asarray(values, np.float32))


def mamba(block: str) -> dict[str, Source]:
    """The sources of Mamba-2's weights, in a block of this name, and of its output projection."""
    return {
        "o_proj": f"{block}.attn_output={block}.ssm_out",
        "qkvz_proj": (f"{block}.ssm_in", queries_first),
        "rates_proj": (f"{block}.ssm_in", steps_alone),
        "convolution": (f"{block}.ssm_conv1d", channels_first),
        "decay": (f"{block}.ssm_a", flat, logarithms),
        "decay_bias": f"{block}.ssm_dt.bias",
        "skip": (f"{block}.ssm_d", flat),
        "value_norm": (f"{block}.ssm_norm", flat),
    }


MAMBA = mamba("blk.{0}")
"""Weights of Granite 4's H, most of whose layers are Mamba-2."""
SELECTIVE: dict[str, Source] = {
    "o_proj": "blk.{0}.attn_output=blk.{0}.ssm_out",
    "in_proj": "blk.{}.ssm_in",
    "convolution": "blk.{}.ssm_conv1d",
    "steps_down_proj": ("blk.{}.ssm_x", jamba.steps_first),
    "steps_down_norm": "blk.{}.ssm_dt_norm",
    "steps_proj": "blk.{}.ssm_dt",
    "keys_proj": ("blk.{}.ssm_x", jamba.keys_alone),
    "keys_norm": "blk.{}.ssm_b_norm",
    "queries_proj": ("blk.{}.ssm_x", jamba.queries_alone),
    "queries_norm": "blk.{}.ssm_c_norm",
    "decay": ("blk.{}.ssm_a", logarithms),
    "skip": "blk.{}.ssm_d",
}
"""Weights of Jamba, most of whose layers are Mamba."""
BESIDE = {**MAMBA, "o_proj": "blk.{}.attn_output", "state_o_proj": "blk.{}.ssm_out"}
"""Weights of Falcon-H1, whose layers also attend."""
BLOCKS: dict[str, Source] = {
    "attention_norm": "blk.{2}.attn_norm",
    "qkv_proj": "blk.{2}.attn_q blk.{2}.attn_k blk.{2}.attn_v",
    **mamba("blk.{2}"),
    "ffn_norm": "blk.{3}.attn_norm",
    "up_proj": "blk.{3}.ffn_up",
    "down_proj": "blk.{3}.ffn_down",
}
"""Weights of Nemotron-H, whose feed-forwards are blocks of their own."""


def delta_of(layer: Layer) -> DeltaNet:
    how = layer.recurrence
    assert isinstance(how, DeltaNet)  # only these layers have it
    return how
