"""Gemma 3n with encoders for images and sound; only its language model runs."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import gemma3n_text
from model_store.families.gemma3n_text import LAYER, MODEL, TIED
from model_store.families.gemma4 import PREFIX, UNUSED


def decoder(config: Config) -> Decoder:
    """Read `text_config` of config.json."""
    return gemma3n_text.decoder(config["text_config"])
