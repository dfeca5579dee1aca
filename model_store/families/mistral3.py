"""The language model of Mistral Small 3.1 and later: Mistral, or Ministral 3."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint, cut
from model_store.families import ministral3, mistral
from model_store.families.mistral import LAYER, MODEL

TEXTS = {"mistral": mistral.decoder, "ministral3": ministral3.decoder}
PREFIX = "language_model.model.", "model.language_model.", "language_model."
TIED = True
UNUSED = ("vision_tower.*", "multi_modal_projector.*", "model.vision_tower.*", "model.multi_modal_projector.*")


def decoder(config: Config) -> Decoder:
    """Read `text_config` of config.json."""
    text = config["text_config"]
    if (kind := str(text.get("model_type", "mistral"))) not in TEXTS:
        raise UnsupportedCheckpoint(f"mistral3 with a language model of type {cut(kind)} is not supported")
    return TEXTS[kind](text)
