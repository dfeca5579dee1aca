"""Granite's mixtures of experts with a shared one."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import given, granitemoe
from model_store.families.granitemoe import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **granitemoe.LAYER,
    "gate_up_proj": "layers.{}.shared_mlp.input_linear",
    "down_proj": "layers.{}.shared_mlp.output_linear",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    same = granitemoe.decoder(config)
    assert same.experts
    return replace(same, experts=replace(same.experts, shared=config.get("shared_intermediate_size", 0) > 0))
