"""Gemma is Llama with a scaled embedding and norms that multiply by 1 + weight."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import plus_one
from model_store.families import activation, llama
from model_store.families.llama import PREFIX, UNUSED

TIED = True
MODEL = {**llama.MODEL, "norm": ("norm", plus_one)}
LAYER = {
    **llama.LAYER,
    "attention_norm": ("layers.{}.input_layernorm", plus_one),
    "ffn_norm": ("layers.{}.post_attention_layernorm", plus_one),
}


def decoder(config: Config) -> Decoder:
    """Read config.json; what it calls gelu is gelu_tanh."""
    same = llama.decoder({"head_dim": 256, **config})
    name = config.get("hidden_act") or "gelu"
    return replace(
        same,
        activation=activation("gelu_pytorch_tanh" if name == "gelu" else name),
        embedding_scale=config["hidden_size"] ** 0.5,
    )
