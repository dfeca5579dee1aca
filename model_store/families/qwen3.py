"""Qwen3 is Qwen2 with normalised queries and keys."""

from model_store.families import llama, qwen2, with_defaults
from model_store.families.qwen2 import MODEL, PREFIX, TIED, UNUSED

LAYER = {**llama.LAYER, "q_norm": "layers.{}.self_attn.q_norm", "k_norm": "layers.{}.self_attn.k_norm"}
decoder = with_defaults(qwen2.decoder, {"head_dim": 128})
