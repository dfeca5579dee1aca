"""Granite 4 without experts and without Mamba, such as Granite 4.0 Micro: Granite under the type of those with both."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import granite, llama
from model_store.families.granite import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    "gate_up_proj": "layers.{}.shared_mlp.input_linear",
    "down_proj": "layers.{}.shared_mlp.output_linear",
}

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]


def decoder(config: Config) -> Decoder:
    """Read config.json; what it does not say of layers and experts is mixed."""
    if config.get("num_local_experts", 8):
        raise UnsupportedCheckpoint("granitemoehybrid with experts (num_local_experts in config.json) is not supported")
    same, kinds = granite.decoder(config), config.get("layer_types") or config.get("layers_block_type") or ["mamba"]
    if not set(kinds) <= {"attention", "full_attention"} or len(kinds) != len(same.layers):
        raise UnsupportedCheckpoint(
            "granitemoehybrid with layers that keep a recurrent state (layer_types in config.json) is not supported"
        )
    turns = config.get("position_embedding_type") == "rope"
    layers = (replace(attention, rope=attention.rope if turns else None) for attention in same.layers)
    return replace(same, layers=tuple(layers))
