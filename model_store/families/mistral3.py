"""Mistral Small 3.1 and later, of which the language model runs: Mistral."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint, cut
from model_store.families import mistral
from model_store.families.mistral import LAYER, MODEL, TIED

PREFIX = "language_model.model.", "model.language_model.", "language_model."
UNUSED = ("vision_tower.*", "multi_modal_projector.*", "model.vision_tower.*", "model.multi_modal_projector.*")

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]


def decoder(config: Config) -> Decoder:
    """Read `text_config` of config.json."""
    text = config["text_config"]
    if (kind := text.get("model_type", "mistral")) != "mistral":
        raise UnsupportedCheckpoint(f"mistral3 with a language model of type {cut(kind)} is not supported")
    return mistral.decoder(text)
