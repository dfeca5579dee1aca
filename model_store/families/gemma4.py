"""Gemma 4 with encoders for images and sound; only its language model runs."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import gemma4_text
from model_store.families.gemma4_text import LAYER, MODEL, TIED

PREFIX = "model.language_model.", "language_model.model.", "language_model."
UNUSED = (*gemma4_text.UNUSED, "vision_tower.*", "audio_tower.*", "embed_vision.*", "embed_audio.*")


def decoder(config: Config) -> Decoder:
    """Read `text_config` of config.json."""
    return gemma4_text.decoder(config["text_config"])
