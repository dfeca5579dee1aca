"""ERNIE 4.5 is Llama whose neighbours turn."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import halve_rotary
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, UNUSED

TIED = True
LAYER = {**llama.LAYER, "qkv_proj": (llama.LAYER["qkv_proj"], halve_rotary)}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder({"head_dim": 128, "rope_theta": 500_000.0, **config})
    return replace(same, epsilon=config.get("rms_norm_eps", 1e-5))
