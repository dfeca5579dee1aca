"""What llama.cpp's converter writes of Gemma 4 alone."""

from typing import Any

NAMES = {
    "embed_tokens_per_layer": "per_layer_token_embd", "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm", "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm", "layer_scalar": "layer_output_scale",
}  # fmt: skip
FACTORS = [1.0] * 8 + [1e30] * 8
"""Of the elements of a head of 32, of which a half turns."""


def uneven_layers(config: dict[str, Any]) -> dict[str, object]:
    """The keys that the converter writes for Gemma 4."""
    own = [config["per_layer_config"].get(str(i), {}) for i in range(config["num_hidden_layers"])]
    wide = max(one.get("head_dim", 0) for one in own)
    heads = [one.get("num_key_value_heads", config["num_key_value_heads"]) for one in own]
    double = config["num_kv_shared_layers"] if config["use_double_wide_mlp"] else 0
    sizes = [config["intermediate_size"] * (1 + (i >= len(own) - double)) for i in range(len(own))]
    return {
        "attention.head_count_kv": heads if config["attention_k_eq_v"] else heads[0],
        "attention.key_length": wide, "attention.value_length": wide, "rope.dimension_count": wide,
        **{f"attention.{kind}_length_swa": config["head_dim"] for kind in ("key", "value")},
        "rope.dimension_count_swa": config["head_dim"], "attention.shared_kv_layers": config["num_kv_shared_layers"],
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
        "feed_forward_length": sizes if double else sizes[0],
    }  # fmt: skip
