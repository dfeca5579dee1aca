"""OLMoE: OLMo 2's normalised queries and keys, Llama's norms, and many small experts."""

from dataclasses import replace

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import field, olmo2, qwen2_moe, qwen3
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {**{name: source for name, source in qwen3.LAYER.items() if ".mlp." not in source}, **qwen2_moe.EXPERTS}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    if config.get("clip_qkv"):
        raise UnsupportedCheckpoint("olmoe with clipped queries and keys (clip_qkv in config.json) is not supported")
    same = olmo2.decoder(config)
    experts = Experts(
        layers=tuple(range(len(same.layers))),
        count=field(config, "num_experts", "num_local_experts"),
        chosen=config.get("num_experts_per_tok") or 8,
        size=config["intermediate_size"],
        normalised=config.get("norm_topk_prob", False),
    )
    return replace(same, experts=experts)
