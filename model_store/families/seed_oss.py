"""Seed-OSS is Llama with biases on q, k and v."""

from model_store.families import llama, with_defaults
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED

decoder = with_defaults(llama.decoder, {"head_dim": 128})
