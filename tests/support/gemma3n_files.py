"""What llama.cpp's converter writes of Gemma 3n alone."""

from statistics import NormalDist
from typing import Any

import numpy as np

NAMES = {
    "altup_projections": "altup_proj", "altup_unembed_projections": "altup_unembd_proj",
    "altup.correct_output_scale": "altup_correct_scale", "altup.correction_coefs": "altup_correct_coef",
    "altup.prediction_coefs": "altup_predict_coef", "altup.modality_router": "altup_router",
    "altup.router_norm": "altup_router_norm", "laurel.linear_left": "laurel_l", "laurel.linear_right": "laurel_r",
    "laurel.post_laurel_norm": "laurel_post_norm",
}  # fmt: skip
LISTS = "model.altup_projections", "model.altup_unembed_projections"


def keys(config: dict[str, Any]) -> dict[str, object]:
    """The keys that the converter writes for Gemma 3n."""
    shares = config["activation_sparsity_pattern"]
    return {
        "altup.active_idx": 0, "altup.num_inputs": 4, "attention.shared_kv_layers": config["num_kv_shared_layers"],
        "activation_sparsity_scale": [NormalDist().inv_cdf(share) if share else -float("inf") for share in shares],
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
    }  # fmt: skip


def in_one(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Matrices of all residuals as a list."""
    lists = {
        f"{name}.weight": np.stack([tensors[f"{name}.{i}.weight"] for i in range(3)])
        for name in LISTS
        if f"{name}.0.weight" in tensors
    }
    return {name: values for name, values in tensors.items() if not name.startswith(LISTS)} | lists
