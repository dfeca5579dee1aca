"""GLM: Llama with a fused gate, and interleaved rotary pairs in half of each head."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import halve_rotary
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    "qkv_proj": (llama.LAYER["qkv_proj"], halve_rotary),
    "gate_up_proj": "layers.{}.mlp.gate_up_proj",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return llama.decoder({"head_dim": 128, "rms_norm_eps": 1.5625e-7, **config}, partial=0.5)
