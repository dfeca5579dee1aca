"""Granite's mixtures of experts, all of a layer in one tensor."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import granite, llama, mixtral
from model_store.families.granite import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **{name: source for name, source in llama.LAYER.items() if ".mlp." not in source},
    "router": "layers.{}.block_sparse_moe.router.layer",
    "experts.gate_up_proj": "layers.{0}.block_sparse_moe.input_linear[{1}]",
    "experts.down_proj": "layers.{0}.block_sparse_moe.output_linear[{1}]",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = granite.decoder(config)
    return replace(same, experts=mixtral.experts(config, len(same.layers)))
