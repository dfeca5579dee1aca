"""LFM2 with experts, chosen by sigmoids with a bias, in all but the first layers."""

from dataclasses import replace

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.families import lfm2
from model_store.families.lfm2 import MODEL, PREFIX, TIED, UNUSED

EXPERT = "layers.{0}.feed_forward.experts.{1}"
LAYER = {
    **lfm2.LAYER,
    "router": "layers.{}.feed_forward.gate",
    "choice_bias?": "layers.{}.feed_forward.expert_bias",
    "experts.gate_up_proj": f"{EXPERT}.w1 {EXPERT}.w3",
    "experts.down_proj": f"{EXPERT}.w2",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = lfm2.decoder(config)
    experts = Experts(
        layers=tuple(range(config.get("num_dense_layers", 2), len(same.layers))),
        count=config.get("num_experts", 32),
        chosen=config.get("num_experts_per_tok", 4),
        size=config["moe_intermediate_size"],
        scores="sigmoid",
        normalised=config.get("norm_topk_prob", True),
        scale=config.get("routed_scaling_factor", 1.0),
    )
    return replace(same, experts=experts)
