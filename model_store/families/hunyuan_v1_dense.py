"""Hunyuan dense is Llama with queries and keys normalised after their rotation."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    "q_norm": "layers.{}.self_attn.query_layernorm",
    "k_norm": "layers.{}.self_attn.key_layernorm",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; its `alpha` scales all rotations, whatever the length of a text."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if alpha := scaling.get("type", scaling.get("rope_type")) == "dynamic" and scaling.get("alpha"):
        size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        theta = scaling.get("rope_theta") or config.get("rope_theta", 10_000.0)
        config = {**config, "rope_scaling": {"rope_theta": theta * alpha ** (size / (size - 2))}}
    same = llama.decoder({"rms_norm_eps": 1e-5, **config})
    layers = tuple(replace(layer, qk_norm="turned") for layer in same.layers)
    return replace(same, layers=layers)
