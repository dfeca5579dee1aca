"""Mixtral is Mistral with experts; each token chooses two."""

from dataclasses import replace

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, mistral
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

EXPERT = "layers.{0}.block_sparse_moe.experts.{1}"
LAYER = {
    **{name: source for name, source in llama.LAYER.items() if ".mlp." not in source},
    "router": "layers.{}.block_sparse_moe.gate",
    "experts.gate_up_proj": f"{EXPERT}.w1 {EXPERT}.w3",
    "experts.down_proj": f"{EXPERT}.w2",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = mistral.decoder({"sliding_window": None, "rms_norm_eps": 1e-5, **config})
    return replace(same, experts=experts(config, len(same.layers)))


def experts(config: Config, layers: int) -> Experts:
    """The experts, in every layer."""
    return Experts(
        layers=tuple(range(layers)),
        count=config.get("num_local_experts", 8),
        chosen=config.get("num_experts_per_tok", 2),
        size=config["intermediate_size"],
    )
