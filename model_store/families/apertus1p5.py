"""Apertus 1.5, of which the language model runs."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import apertus1p5_text
from model_store.families.apertus1p5_text import LAYER, MODEL, TIED

PREFIX = "model.language_model.", "model."
UNUSED = (*apertus1p5_text.UNUSED, "model.vision_tokenizer.*", "model.audio_tokenizer.*")


def decoder(config: Config) -> Decoder:
    """Read `text_config` of config.json."""
    return apertus1p5_text.decoder(config["text_config"])
