"""The language model of Apertus 1.5: Apertus, which reads tokens of images and sounds too, and writes none of them."""

from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.families import apertus
from model_store.families.apertus import LAYER, PREFIX, TIED, UNUSED


def of_text(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The rows of tokens that are written."""
    return values[: int(layer.gains[0])]


MODEL = {**apertus.MODEL, "embedding": ("embed_tokens", of_text)}


def decoder(config: Config) -> Decoder:
    """Read config.json; tokens from `output_vocab_size` on stand for images and sounds."""
    vocab_size = config.get("output_vocab_size") or config["vocab_size"]
    same = apertus.decoder({**config, "vocab_size": vocab_size})
    return replace(same, layers=tuple(replace(layer, gains=(vocab_size,)) for layer in same.layers))
