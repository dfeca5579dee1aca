"""K-EXAONE: EXAONE 4 with norms before the branches, and experts chosen as in GLM 4.5."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import exaone4, given, glm4_moe, llama, qwen2_moe, sparse_layers
from model_store.families.llama import MODEL, PREFIX, TIED

UNUSED = (*llama.UNUSED, "mtp.*")
"""Multi-token prediction."""
LAYER = {
    **llama.LAYER,
    **qwen2_moe.EXPERTS,
    **glm4_moe.FOR_ALL,
    "q_norm": "layers.{}.self_attn.q_norm",
    "k_norm": "layers.{}.self_attn.k_norm",
    "choice_bias": "layers.{0}.mlp.e_score_correction_bias=layers.{0}.mlp.gate.e_score_correction_bias",
}
DEFAULTS: Config = {"num_experts": 64, "num_shared_experts": 1, "routed_scaling_factor": 2.5}
"""What config.json may leave out."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same, config = exaone4.decoder(config), {**DEFAULTS, **given(config)}
    names = {"n_routed_experts": config["num_experts"], "n_shared_experts": config["num_shared_experts"]}
    experts = glm4_moe.experts({**config, **names}, len(same.layers))
    return replace(same, experts=replace(experts, layers=sparse_layers(config, len(same.layers), experts.layers)))
