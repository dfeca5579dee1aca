"""dots.llm1: Qwen3 with windows in later layers, and experts chosen as in GLM 4.5."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import given, glm4_moe, qwen2, qwen2_moe, qwen3
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **qwen3.LAYER,
    **qwen2_moe.EXPERTS,
    **glm4_moe.FOR_ALL,
    "choice_bias": "layers.{}.mlp.gate.e_score_correction_bias",
}
DEFAULTS: Config = {"n_shared_experts": 0, "first_k_dense_replace": 0, "norm_topk_prob": False, "max_window_layers": 62}
"""What config.json may leave out."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = {**DEFAULTS, "use_sliding_window": config.get("sliding_window", 4096) is not None, **given(config)}
    same = qwen2.decoder(config)
    return replace(same, experts=glm4_moe.experts(config, len(same.layers)))
