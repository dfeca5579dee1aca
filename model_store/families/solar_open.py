"""Solar Open: Llama with experts in every layer, chosen as in GLM 4.5."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import given, glm4_moe, llama, qwen2_moe
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    **qwen2_moe.EXPERTS,
    **glm4_moe.FOR_ALL,
    "choice_bias": "layers.{}.mlp.gate.e_score_correction_bias",
}
DEFAULTS: Config = {"head_dim": 128, "rope_theta": 1e6, "rms_norm_eps": 1e-5}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = {**DEFAULTS, **given(config), "first_k_dense_replace": 0}
    same = llama.decoder(config)
    return replace(same, experts=glm4_moe.experts(config, len(same.layers)))
