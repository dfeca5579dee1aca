"""Qwen2 is Llama with biases on q, k and v."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, windows, with_windows
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json; the later layers have a window only when `use_sliding_window` says so."""
    same = llama.decoder(config)
    if not config.get("use_sliding_window"):
        return same
    first = config.get("max_window_layers", 28)
    default = ["full_attention" if i < first else "sliding_attention" for i in range(len(same.layers))]
    return with_windows(same, windows(config, default, config.get("sliding_window", 4096)))
