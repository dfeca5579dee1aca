"""Granite is Llama with factors; the branches' factor is moved out of the residual, as norms ignore scale."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same, branch = llama.decoder(config), config.get("residual_multiplier", 1.0)
    scale = config.get("attention_multiplier", 1.0)
    return replace(
        same,
        layers=tuple(replace(layer, scale=scale) for layer in same.layers),
        embedding_scale=config.get("embedding_multiplier", 1.0) / branch,
        epsilon=same.epsilon / branch**2,
        output_scale=1 / config.get("logits_scaling", 1.0),
    )
