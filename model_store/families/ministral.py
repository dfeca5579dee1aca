"""Ministral of 2024 is Mistral with windows on the layers that `layer_types` names."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, windows, with_windows
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json; where it names no layers, all have a window."""
    same = llama.decoder(config)
    default = ["sliding_attention"] * len(same.layers)
    return with_windows(same, windows(config, default, config.get("sliding_window", 4096)))
