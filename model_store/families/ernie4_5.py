"""ERNIE 4.5 is Llama with interleaved rotary pairs."""

from model_store.checkpoint.weights import halve_rotary
from model_store.families import llama, with_defaults
from model_store.families.llama import MODEL, PREFIX, UNUSED

TIED = True
LAYER = {**llama.LAYER, "qkv_proj": (llama.LAYER["qkv_proj"], halve_rotary)}
decoder = with_defaults(llama.decoder, {"head_dim": 128, "rope_theta": 500_000.0, "rms_norm_eps": 1e-5})
