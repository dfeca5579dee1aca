"""Granite's mixtures of experts, all of a layer in one tensor."""

from dataclasses import replace

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.families import granite, llama
from model_store.families.granite import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **{name: source for name, source in llama.LAYER.items() if ".mlp." not in source},
    "router": "layers.{}.block_sparse_moe.router.layer",
    "experts.gate_up_proj": "layers.{0}.block_sparse_moe.input_linear[{1}]",
    "experts.down_proj": "layers.{0}.block_sparse_moe.output_linear[{1}]",
}

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = granite.decoder(config)
    experts = Experts(
        layers=tuple(range(len(same.layers))),
        count=config.get("num_local_experts", 8),
        chosen=config.get("num_experts_per_tok", 2),
        size=config["intermediate_size"],
    )
    return replace(same, experts=experts)
