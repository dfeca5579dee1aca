"""GLM: Llama with a fused gate, and neighbours that turn in half of each head."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, rope
from model_store.checkpoint.weights import halve_rotary
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    "qkv_proj": (llama.LAYER["qkv_proj"], halve_rotary),
    "gate_up_proj": "layers.{}.mlp.gate_up_proj",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder({"head_dim": 128, **config, **UNSCALED})
    turned = rope(config, same.layers[0].head_dim, partial=config.get("partial_rotary_factor", 0.5))
    layers = tuple(replace(attention, rope=turned) for attention in same.layers)
    return replace(same, layers=layers, epsilon=config.get("rms_norm_eps", 1.5625e-7))
