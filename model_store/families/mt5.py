"""mT5 and its likes: T5 with a gate in each feed-forward, and a head of its own."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import t5
from model_store.families.t5 import LAYER, MODEL, PREFIX, UNUSED

TIED = False

DEFAULTS: Config = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
"""What config.json leaves out."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return t5.decoder({**DEFAULTS, **config})
