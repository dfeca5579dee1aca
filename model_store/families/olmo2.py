"""OLMo 2: Llama with norms after the branches, and queries and keys normalised over all heads."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama
from model_store.families.exaone4 import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder({"rms_norm_eps": 1e-5, **config})
    return replace(same, layers=tuple(replace(layer, qk_norm="heads") for layer in same.layers))
