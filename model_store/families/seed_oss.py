"""Seed-OSS is Llama with biases on q, k and v."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return llama.decoder({"head_dim": 128, **config})
