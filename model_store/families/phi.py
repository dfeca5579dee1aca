"""Phi 1 to 2: rotary positions on part of each head, attention and feed-forward side by side under one norm."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import spread_rotary
from model_store.families import activation, llama
from model_store.families.llama import PREFIX, TIED, UNUSED

MODEL = {**llama.MODEL, "norm": "final_layernorm"}
LAYER = {
    "attention_norm": "layers.{}.input_layernorm",
    "qkv_proj": (llama.LAYER["qkv_proj"], spread_rotary),
    "o_proj": "layers.{}.self_attn.dense",
    "up_proj": "layers.{}.mlp.fc1",
    "down_proj": "layers.{}.mlp.fc2",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return replace(
        llama.decoder(config, partial=0.5),
        norm="layer",
        epsilon=config.get("layer_norm_eps", 1e-5),
        activation=activation(config.get("hidden_act", "gelu_new")),
        parallel=True,
    )
