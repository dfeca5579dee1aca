"""Gemma 4 that reads images and sound without encoders; only its language model runs."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import gemma4, gemma4_text
from model_store.families.gemma4 import LAYER, MODEL, PREFIX, TIED

UNUSED = (*gemma4.UNUSED, "vision_embedder.*")
DEFAULTS: Config = {"max_position_embeddings": 262_144, "sliding_window": 1024, "hidden_size_per_layer_input": 0}
"""Defaults of `text_config` that differ from those of the other Gemma 4."""


def decoder(config: Config) -> Decoder:
    """Read `text_config` of config.json."""
    return gemma4_text.decoder({**DEFAULTS, **config["text_config"]})
