"""FlexOlmo: OLMo 2 with a few large experts in every layer."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import given, olmo2, qwen2_moe
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {**{name: source for name, source in olmo2.LAYER.items() if ".mlp." not in source}, **qwen2_moe.EXPERTS}
DEFAULTS: Config = {"rms_norm_eps": 1e-6, "rope_theta": 500_000.0, "num_experts": 7, "num_experts_per_tok": 5}
"""What config.json may leave out."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = {**DEFAULTS, **given(config)}
    same, own = olmo2.decoder(config), {"moe_intermediate_size": config["intermediate_size"]}
    return replace(same, experts=qwen2_moe.experts({**config, **own}, len(same.layers), shared=False))
