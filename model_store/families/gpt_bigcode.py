"""GPT-BigCode (StarCoder, SantaCoder): GPT-2 with ordinary matrices, and one key-value head unless told otherwise."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import group_heads
from model_store.families import gpt2
from model_store.families.gpt2 import MODEL, PREFIX, TIED, UNUSED

LAYER = {name: source if isinstance(source, str) else source[0] for name, source in gpt2.LAYER.items()} | {
    "qkv_proj": ("h.{}.attn.c_attn", group_heads)
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = gpt2.decoder({**config, "scale_attn_by_inverse_layer_idx": False})  # which only GPT-2 reads
    if not config.get("multi_query", True):
        return same
    return replace(same, layers=tuple(replace(layer, kv_heads=1) for layer in same.layers))
