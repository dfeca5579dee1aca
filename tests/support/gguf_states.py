"""What llama.cpp's converter makes of layers that keep a state."""

from typing import Any

import numpy as np


def with_states(config: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensors with those of layers that keep a state as the converter has them: heads of one key are apart."""
    found = {name: values[:, 0] if ".conv" in name and values.ndim == 3 else values for name, values in tensors.items()}
    if config["model_type"] == "granitemoehybrid":
        return with_mamba(config, config["mamba_n_groups"], found)
    if config["model_type"] == "jamba":
        bare = {f"{name}.weight": found.pop(name) for name in [*found] if name.endswith(("A_log", "mamba.D"))}
        return found | {name: -np.exp(one) if "A_log" in name else one for name, one in bare.items()}
    if config["model_type"] == "falcon_h1":
        return with_mamba(config, config["mamba_n_groups"], multiplied(config, found))
    if config["model_type"] == "nemotron_h":
        return with_mamba(config, config["n_groups"], {by_kind(config, name): one for name, one in found.items()})
    if not config["model_type"].startswith("qwen3_5"):
        return found
    keys, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    first = 2 * keys * config["linear_key_head_dim"]

    def in_turn(values: np.ndarray) -> np.ndarray:
        return values.reshape(keys, heads // keys, -1, *values.shape[1:]).swapaxes(0, 1).reshape(values.shape)

    for name, values in list(found.items()):
        match name.removeprefix("model.").partition("linear_attn.")[2].removesuffix(".weight"):
            case "in_proj_qkv" | "conv1d":
                found[name] = np.concatenate([values[:first], in_turn(values[first:])])
            case "in_proj_z" | "in_proj_a" | "in_proj_b":
                found[name] = in_turn(values)
            case "A_log":
                found[f"{name}.weight"] = in_turn(-np.exp(found.pop(name)))
            case "dt_bias":
                found[name.replace("dt_bias", "dt_proj.bias")] = in_turn(found.pop(name))
            case "out_proj":
                found[name] = in_turn(values.T).T
            case "" if name.endswith("norm.weight"):
                found[name] = values + 1
    return found


def blocks_of(config: dict[str, Any]) -> dict[str, object]:
    """The keys that follow from what each of Nemotron's blocks is."""
    kinds, heads, size = config["layers_block_type"], config["num_key_value_heads"], config["intermediate_size"]
    return {
        "block_count": len(kinds), "rope.dimension_count": config["hidden_size"] // config["num_attention_heads"],
        "attention.head_count_kv": [heads * (kind == "full_attention") for kind in kinds],
        "feed_forward_length": [size * (kind == "mlp") for kind in kinds],
        "ssm.conv_kernel": config["conv_kernel"], "ssm.state_size": config["ssm_state_size"],
        "ssm.group_count": config["n_groups"], "ssm.time_step_rank": config["mamba_num_heads"],
        "ssm.inner_size": config["mamba_num_heads"] * config["mamba_head_dim"],
        "expert_count": None, "expert_used_count": None, "expert_feed_forward_length": None,
    }  # fmt: skip


def states_of(config: dict[str, Any]) -> dict[str, object]:
    """The keys that the converter writes of Falcon-H1's states."""
    return {
        "ssm.conv_kernel": config["mamba_d_conv"], "ssm.state_size": config["mamba_d_state"],
        "ssm.group_count": config["mamba_n_groups"], "ssm.time_step_rank": config["mamba_n_heads"],
        "ssm.inner_size": config["mamba_d_head"] * config["mamba_n_heads"],
        "embedding_scale": None, "attention.scale": None,
    }  # fmt: skip


def channels_of(config: dict[str, Any]) -> dict[str, object]:
    """The keys that the converter writes of Jamba."""
    attending = range(config["attn_layer_offset"], config["num_hidden_layers"], config["attn_layer_period"])
    heads = [config["num_key_value_heads"] * (i in attending) for i in range(config["num_hidden_layers"])]
    return {
        "attention.head_count_kv": heads, "rope.freq_base": None, "rope.dimension_count": None,
        "ssm.conv_kernel": config["mamba_d_conv"], "ssm.state_size": config["mamba_d_state"],
        "ssm.time_step_rank": config["mamba_dt_rank"], "ssm.inner_size": config["mamba_expand"] * config["hidden_size"],
    }  # fmt: skip


def multiplied(config: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Falcon-H1's matrices with the factors that config.json has for them."""
    read, size = config["attention_in_multiplier"], config["mamba_d_head"] * config["mamba_n_heads"]
    keys = config["mamba_n_groups"] * config["mamba_d_state"]
    parts = np.repeat(config["ssm_multipliers"], [size, size, keys, keys, config["mamba_n_heads"]])
    gate, down = config["mlp_multipliers"]
    factors: dict[str, Any] = {
        "q_proj": read, "k_proj": read * config["key_multiplier"], "v_proj": read, "gate_proj": gate, "down_proj": down,
        "o_proj": config["attention_out_multiplier"], "out_proj": config["ssm_out_multiplier"],
        "in_proj": (config["ssm_in_multiplier"] * parts)[:, None], "lm_head": config["lm_head_multiplier"],
        "embed_tokens": config["embedding_multiplier"],
    }  # fmt: skip
    return {name: values * factors.get(name.split(".")[-2], 1.0) for name, values in tensors.items()}


KINDS = {"linear_attention": "mamba", "full_attention": "self_attn", "mlp": "mlp"}
NEMOTRON = {"embeddings": "embed_tokens", "norm_f": "norm"}


def by_kind(config: dict[str, Any], name: str) -> str:
    """The name of one of Nemotron's tensors as others call it, whose layers are not alike."""
    match name.removeprefix("backbone.").split(".", 3):
        case ["layers", number, "mixer", rest]:
            return f"model.layers.{number}.{KINDS[config['layers_block_type'][int(number)]]}.{rest}"
        case ["layers", number, "norm", rest]:
            return f"model.layers.{number}.input_layernorm.{rest}"
        case [first, *rest]:
            return ".".join([first if first == "lm_head" else f"model.{NEMOTRON[first]}", *rest])
    raise ValueError(name)


def with_mamba(config: dict[str, Any], groups: int, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same of Mamba-2: numbers of heads in columns, rates and not their logarithms, norms by groups."""
    found: dict[str, np.ndarray] = {}
    for name, values in tensors.items():
        match name.partition(".mamba.")[2].removesuffix(".weight"):
            case "A_log":
                found[f"{name}.weight"] = -np.exp(values)[:, None]
            case "D":
                found[f"{name}.weight"] = values[:, None]
            case "dt_bias":
                found[name.replace("dt_bias", "dt_proj.bias")] = values
            case "norm":
                found[name] = values.reshape(groups, -1)
            case _:
                found[name] = values
    if config.get("num_local_experts"):
        return found
    parts = {"output_linear": ("down",), "input_linear": ("gate", "up")}
    for name in [name for name in found if "shared_mlp" in name]:
        stem, _, role = name.removesuffix(".weight").partition("shared_mlp.")
        kinds = parts[role]
        for kind, rows in zip(kinds, np.split(found.pop(name), len(kinds)), strict=True):
            found[f"{stem}mlp.{kind}_proj.weight"] = rows
    return found
