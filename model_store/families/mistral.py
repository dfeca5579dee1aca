"""Mistral is Llama with a window on every layer, in its first version."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, with_windows
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json; `sliding_window` is null from the second version on, and 4,096 where it is not mentioned."""
    same = llama.decoder(config)
    return with_windows(same, [config.get("sliding_window", 4096) or 0] * len(same.layers))
