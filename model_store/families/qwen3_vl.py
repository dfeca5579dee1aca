"""The language model of Qwen3-VL: Qwen3, whose positions in text are the same in all three dimensions."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import qwen2_vl, qwen3
from model_store.families.qwen2_vl import MODEL, PREFIX, TIED, UNUSED
from model_store.families.qwen3 import LAYER


def decoder(config: Config) -> Decoder:
    """Read `text_config` of config.json."""
    return qwen3.decoder({"rope_theta": 500_000.0, **qwen2_vl.text_of(config)})
