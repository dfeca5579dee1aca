"""DeepSeek V3, such as Moonlight: DeepSeek V2 whose experts are chosen by sigmoids with a bias, in groups."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import deepseek_v2, given, glm4_moe, llama
from model_store.families.deepseek_v2 import MODEL, PREFIX, TIED

UNUSED = (*deepseek_v2.UNUSED, "layers.61.*")
LAYER = {**deepseek_v2.LAYER, "choice_bias": glm4_moe.LAYER["choice_bias"]}
USUAL: Config = {
    "first_k_dense_replace": 3, "moe_intermediate_size": 1407, "n_group": 8, "n_routed_experts": 256,
    "n_shared_experts": 2, "routed_scaling_factor": 2.5, "topk_group": 4,
}  # fmt: skip


def decoder(config: Config) -> Decoder:
    """Read config.json; the extra layer for multi-token prediction is not read."""
    config = {**USUAL, **given(config)}
    same = deepseek_v2.attend(config, llama.decoder(deepseek_v2.without_latents(config)))
    return replace(same, experts=glm4_moe.experts(config, len(same.layers)))
