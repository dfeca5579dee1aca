"""What llama.cpp's converter makes of mixtures of experts."""

from typing import Any

import numpy as np


def choice_of_experts(config: dict[str, Any]) -> dict[str, object]:
    """The keys that the converter writes for DeepSeek, GLM and ERNIE."""
    dense = config.get("first_k_dense_replace", config.get("moe_layer_start_index"))
    dense = config.get("mlp_layer_types", []).count("dense") if dense is None else dense
    if config["model_type"] == "youtu":
        return {
            "leading_dense_block_count": config["num_hidden_layers"],
            "expert_feed_forward_length": config["intermediate_size"],
        }
    by_sigmoids = config["model_type"] not in ("deepseek_v2", "ernie4_5_moe")
    return {
        "leading_dense_block_count": dense,
        "expert_count": config.get("n_routed_experts") or count_experts(config) or config["moe_num_experts"],
        "expert_used_count": config.get("num_experts_per_tok") or config["moe_k"],
        "expert_shared_count": config.get("n_shared_experts")
        or config.get("num_shared_experts")
        or config["moe_num_shared_experts"],
        "expert_weights_scale": config.get("routed_scaling_factor"),
        "expert_weights_norm": True if by_sigmoids else None,
        "expert_gating_func": None if "moe_k" in config else 2 if by_sigmoids else 1,
        "expert_group_count": config.get("n_group"), "expert_group_used_count": config.get("topk_group"),
        "interleave_moe_layer_step": config.get("moe_layer_interval"),
        "expert_shared_feed_forward_length": config.get("moe_num_shared_experts", 0) * config["moe_intermediate_size"]
        or None,
        "nextn_predict_layers": config.get("num_nextn_predict_layers"),
    }  # fmt: skip


def count_experts(config: dict[str, Any]) -> int | None:
    """Experts of each layer, if there are any."""
    return config.get("num_experts") or config.get("num_local_experts")


def stacked(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensors with those of all experts of a layer in one, in the words of the newer types."""
    found: dict[str, np.ndarray] = {}
    several: dict[str, dict[int, np.ndarray]] = {}
    for name, values in tensors.items():
        for word, role in ("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj"):
            name = name.replace(f".{word}.", f".{role}.")
        name = name.replace(".block_sparse_moe.experts.", ".mlp.experts.").replace(".sinks", ".sinks.weight")
        name = name.replace("e_score_correction_bias", "e_score_correction.bias")
        for bias in (".feed_forward.expert_bias", ".mlp.expert_bias"):
            name = name.replace(bias, ".mlp.gate.e_score_correction.bias")
        stem, experts, rest = name.partition(".experts.")
        if experts and not rest[0].isdigit():
            found |= listed(name, values)
        elif experts:
            number, _, role = rest.partition(".")
            several.setdefault(f"{stem}.experts.{role}", {})[int(number)] = values
        elif name.endswith("shared_mlp.input_linear.weight"):
            stem = name.replace("shared_mlp.input_linear.weight", "mlp.shared_expert.")
            found |= zip((f"{stem}gate_proj.weight", f"{stem}up_proj.weight"), np.split(values, 2), strict=True)
        elif name.endswith("input_linear.weight"):
            gate, up = np.split(values, 2, axis=1)
            stem = name.replace("block_sparse_moe.input_linear.weight", "mlp.experts.")
            found |= {f"{stem}gate_proj.weight": gate, f"{stem}up_proj.weight": up}
        else:
            name = name.replace("block_sparse_moe.output_linear", "mlp.experts.down_proj")
            found[name] = values.reshape(-1) if name.endswith("shared_expert_gate.weight") else values
    return found | {name: np.stack([parts[i] for i in range(len(parts))]) for name, parts in several.items()}


def listed(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """A list of gpt-oss's matrices (in, out), or of their biases, the rows of gates and of what they gate apart."""
    stem, bias = name.removesuffix("_bias"), name.endswith("_bias")
    rows, end = (values, ".bias") if bias else (values.swapaxes(1, 2), ".weight")
    if not stem.endswith("gate_up_proj"):
        return {stem + end: rows}
    gate, up = (stem.replace("gate_up", kind) + end for kind in ("gate", "up"))
    return {gate: rows[:, ::2], up: rows[:, 1::2]}
