"""OLMo: Llama with layer norms without weights; some versions clamp queries, keys and values."""

from dataclasses import replace

import numpy as np

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama
from model_store.families.llama import PREFIX, TIED, UNUSED

MODEL = {**llama.MODEL, "norm": np.ones}
LAYER = {**llama.LAYER, "attention_norm": np.ones, "ffn_norm": np.ones}


def decoder(config: Config) -> Decoder:
    """Read config.json; the epsilon is always the same."""
    return replace(llama.decoder(config), norm="layer", epsilon=1e-5, qkv_clip=config.get("clip_qkv") or 0.0)
