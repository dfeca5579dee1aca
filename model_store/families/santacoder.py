"""SantaCoder as first published: GPT-2 with one key-value head; its `model_type` is gpt2."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import transpose
from model_store.families import gpt2
from model_store.families.gpt2 import MODEL, PREFIX, TIED, UNUSED

LAYER = {**gpt2.LAYER, "qkv_proj": ("h.{0}.attn.q_attn h.{0}.attn.kv_attn", transpose)}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = gpt2.decoder(config)
    return replace(same, layers=tuple(replace(layer, kv_heads=1) for layer in same.layers))
