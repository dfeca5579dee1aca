"""InternLM 3 is Llama, with biases under names of its own."""

from model_store.families import llama, with_defaults
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED

decoder = with_defaults(llama.decoder, {"head_dim": 128, "rms_norm_eps": 1e-5})
