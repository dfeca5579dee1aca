"""IQuest-Coder is Llama; published checkpoints use nothing else of its first code."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import llama
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    for name in "clip_qkv", "use_sliding_window":
        if config.get(name):
            raise UnsupportedCheckpoint(f"iquestcoder with {name} (config.json) is not supported")
    return llama.decoder({"head_dim": 128, "rms_norm_eps": 1e-5, **config})
