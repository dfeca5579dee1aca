"""XGLM: OPT without its inner prefix, with an exact GELU, a scaled embedding, and sinusoidal positions."""

import math
from dataclasses import replace

import numpy as np

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import biogpt, field, opt
from model_store.families.biogpt import LAYER
from model_store.families.opt import PREFIX, TIED

UNUSED = ("embed_positions.weights",)


def waves(shape: tuple[int, ...]) -> np.ndarray:
    """Sinusoidal position embeddings; positions begin at 2."""
    places, half = np.arange(2, shape[0] + 2, dtype=np.float32), shape[1] // 2
    angles = np.outer(places, np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10_000) / (half - 1))))
    return np.pad(np.concatenate([np.sin(angles), np.cos(angles)], axis=1), ((0, 0), (0, shape[1] % 2)))


MODEL = {**biogpt.MODEL, "position_embedding": waves, "lm_head": "lm_head"}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    spelled = {
        "num_attention_heads": field(config, "attention_heads", "num_attention_heads"),
        "hidden_size": field(config, "d_model", "hidden_size"),
        "num_hidden_layers": field(config, "num_layers", "num_hidden_layers"),
    }
    same = opt.decoder({"activation_function": "gelu", **config, **spelled})
    return replace(same, embedding_scale=same.hidden_size**0.5 if config.get("scale_embedding", True) else 1.0)
