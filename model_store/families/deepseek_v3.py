"""DeepSeek V3, such as Moonlight: DeepSeek V2 whose experts are chosen by sigmoids with a bias, in groups."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import deepseek_v2, given, glm4_moe
from model_store.families.deepseek_v2 import MODEL, PREFIX, TIED

UNUSED = (*deepseek_v2.UNUSED, "layers.61.*")
LAYER = {**deepseek_v2.LAYER, "choice_bias": glm4_moe.LAYER["choice_bias"]}


def decoder(config: Config) -> Decoder:
    """Read config.json; the layer behind the last one guesses tokens ahead, and is not read."""
    config = given(config)
    usual = {"first_k_dense_replace": 3, "n_routed_experts": 256, "num_experts_per_tok": 8}
    same = deepseek_v2.decoder({**usual, **config, "topk_method": "greedy", "norm_topk_prob": False})
    assert same.experts
    experts = replace(
        same.experts,
        scores="sigmoid",
        normalised=config.get("norm_topk_prob", True),
        scale=config.get("routed_scaling_factor", 2.5),
        groups=config.get("n_group", 8),
        chosen_groups=config.get("topk_group", 4),
    )
    return replace(same, experts=experts)
