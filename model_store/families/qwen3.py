"""Qwen3 is Qwen2 with normalised queries and keys."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, qwen2
from model_store.families.qwen2 import MODEL, PREFIX, TIED, UNUSED

LAYER = {**llama.LAYER, "q_norm": "layers.{}.self_attn.q_norm", "k_norm": "layers.{}.self_attn.k_norm"}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return qwen2.decoder({"head_dim": 128, **config})
