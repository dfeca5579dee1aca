"""GPT-NeoX Japanese: GPT-NeoX with sequential branches, and a bias of attention in the last layer only."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import gpt_neox
from model_store.families.gpt_neox import LAYER, MODEL, UNUSED

PREFIX = "gpt_neox_japanese."
TIED = True


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return gpt_neox.decoder({"rotary_pct": 1.0, **config, "use_parallel_residual": False})
