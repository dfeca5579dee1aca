"""Granite's mixtures of experts with windows, attention sinks, and a rotary base for each layer, or none."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import given, granite_swa, granitemoeshared
from model_store.families.granitemoeshared import MODEL, PREFIX, TIED, UNUSED

EXPERTS = "layers.{0}.block_sparse_moe.experts"
LAYER = {
    **granitemoeshared.LAYER,
    **granite_swa.SINKS,
    "router": "layers.{}.block_sparse_moe.router",
    "experts.gate_up_proj": EXPERTS + ".gate_up_proj[{1}]",
    "experts.down_proj": EXPERTS + ".down_proj[{1}]",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    return granite_swa.near_and_far(granitemoeshared.decoder(config), config)
