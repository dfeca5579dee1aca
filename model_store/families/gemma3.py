"""Gemma 3 with an image encoder; only its language model runs."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import gemma3_text
from model_store.families.gemma3_text import LAYER, MODEL, TIED

PREFIX = "language_model.model.", "model.language_model.", "language_model."
UNUSED = ("vision_tower.*", "multi_modal_projector.*")
DEFAULTS: Config = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131_072,
}
"""Defaults of `text_config`."""


def decoder(config: Config) -> Decoder:
    """Read `text_config` of config.json; this model's logits are never capped."""
    return gemma3_text.decoder({**DEFAULTS, **config["text_config"], "final_logit_softcapping": None})
