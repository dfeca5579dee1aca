"""Jais 2 is Arcee with layer norms, and biases everywhere."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import arcee
from model_store.families.arcee import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return replace(arcee.decoder(config), norm="layer", epsilon=config.get("layer_norm_eps", 1e-5))
