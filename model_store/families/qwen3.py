"""Qwen3 is Qwen2 with normalised queries and keys."""

from model_store.families import llama
from model_store.families.qwen2 import MODEL, PREFIX, TIED, UNUSED, decoder

LAYER = {**llama.LAYER, "q_norm": "layers.{}.self_attn.q_norm", "k_norm": "layers.{}.self_attn.k_norm"}

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]
