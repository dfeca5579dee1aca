"""GLM 4.7 Flash: DeepSeek V3 with other sizes."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import deepseek_v2, deepseek_v3, given, sparse_layers
from model_store.families.deepseek_v3 import LAYER, MODEL, PREFIX, TIED

UNUSED = (*deepseek_v2.UNUSED, "layers.47.*")
USUAL: Config = {
    "first_k_dense_replace": 1, "moe_intermediate_size": 1536, "n_group": 1, "n_shared_experts": 1,
    "num_experts_per_tok": 4, "n_routed_experts": 64, "qk_nope_head_dim": 192, "rms_norm_eps": 1e-5,
    "routed_scaling_factor": 1.8, "topk_group": 1, "v_head_dim": 256,
}  # fmt: skip


def decoder(config: Config) -> Decoder:
    """Read config.json; the extra layer for multi-token prediction is not read."""
    same = deepseek_v3.decoder({**USUAL, **given(config)})
    assert same.experts
    sparse = sparse_layers(config, len(same.layers), same.experts.layers)
    return replace(same, experts=replace(same.experts, layers=sparse))
