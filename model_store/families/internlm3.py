"""InternLM 3 is Llama, with biases under names of its own."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder({"head_dim": 128, **config})
    return replace(same, epsilon=config.get("rms_norm_eps", 1e-5))
