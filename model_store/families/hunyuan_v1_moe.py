"""Hunyuan with experts: Hunyuan dense with experts and a shared feed-forward in each layer."""

from dataclasses import replace
from typing import Any

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import given, hunyuan_v1_dense, qwen2_moe
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

SHARED = "layers.{0}.mlp.shared_mlp"
LAYER = {
    **hunyuan_v1_dense.LAYER,
    **qwen2_moe.EXPERTS,
    "router": "layers.{}.mlp.gate.wg",
    "gate_up_proj": f"{SHARED}.gate_proj {SHARED}.up_proj",
    "down_proj": f"{SHARED}.down_proj",
}
ONLY = {"num_shared_expert": 1, "use_cla": False, "use_mixed_mlp_moe": True}
"""What all published models have, and transformers does not read."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = {"num_experts": 1, "moe_topk": 1, **given(config)}
    for name, value in ONLY.items():
        if name in config and of_all_layers(config, name) != value:
            raise UnsupportedCheckpoint(f"hunyuan_v1_moe with {name} (config.json) other than {value} is not supported")
    same = hunyuan_v1_dense.decoder(config)
    experts = Experts(
        layers=tuple(range(len(same.layers))),
        count=config["num_experts"],
        chosen=of_all_layers(config, "moe_topk"),
        size=of_all_layers(config, "intermediate_size"),
        shared=True,
    )
    return replace(same, experts=experts)


def of_all_layers(config: Config, name: str) -> Any:  # Any: config.json's
    """A field's value, which may be a list of the same value for each layer."""
    said = config[name]
    if isinstance(said, list) and len(set(said)) != 1:
        raise UnsupportedCheckpoint(f"{name} (config.json) differs from layer to layer, which is not supported")
    return said[0] if isinstance(said, list) else said
