"""Phi 3.5 MoE: Mixtral with layer norms and biases, and a sparsemixer router."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import given, mixtral
from model_store.families.mixtral import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json; whatever it says, two experts are chosen."""
    config = given(config)
    if config.get("num_experts_per_tok", 2) != 2:
        raise UnsupportedCheckpoint("phimoe with other than 2 num_experts_per_tok (config.json) is not supported")
    same = mixtral.decoder({"rope_theta": 1e6, "num_local_experts": 16, **config, **amplified(config)})
    assert same.experts
    jitter = config.get("router_jitter_noise", 0.01)
    return replace(same, norm="layer", experts=replace(same.experts, scores="sparsemixer", nearness=2 * jitter))


def amplified(config: Config) -> Config:
    """LongRoPE with the publisher's explicit amplitudes for short and long texts."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    short, long = (scaling.get(f"{length}_mscale") for length in ("short", "long"))
    if short != long:
        raise UnsupportedCheckpoint("phimoe whose short_mscale and long_mscale differ (rope_scaling) is not supported")
    return {"rope_scaling": {**scaling, "attention_factor": short}} if short else {}
