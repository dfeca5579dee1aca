"""What llama.cpp's converter makes of layers that keep a state."""

from typing import Any

import numpy as np


def with_states(config: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensors with those of layers that keep a state as the converter has them: heads of one key are apart."""
    found = {name: values[:, 0] if ".conv" in name and values.ndim == 3 else values for name, values in tensors.items()}
    if config["model_type"] == "granitemoehybrid":
        return with_mamba(config, found)
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


def with_mamba(config: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
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
                found[name] = values.reshape(config["mamba_n_groups"], -1)
            case _:
                found[name] = values
    if config["num_local_experts"]:
        return found
    parts = {"output_linear": ("down",), "input_linear": ("gate", "up")}
    for name in [name for name in found if "shared_mlp" in name]:
        stem, _, role = name.removesuffix(".weight").partition("shared_mlp.")
        kinds = parts[role]
        for kind, rows in zip(kinds, np.split(found.pop(name), len(kinds)), strict=True):
            found[f"{stem}mlp.{kind}_proj.weight"] = rows
    return found
