"""GLM 4.5: Llama with partly rotary positions; experts are chosen by sigmoids with a bias, one is shared."""

from dataclasses import replace

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import spread_rotary
from model_store.families import llama, qwen2_moe
from model_store.families.llama import MODEL, PREFIX, TIED

MLP, SHARED = "layers.{0}.mlp", "layers.{0}.mlp.shared_experts"
FOR_ALL = {
    "gate_up_proj": f"{MLP}.gate_proj={SHARED}.gate_proj {MLP}.up_proj={SHARED}.up_proj",
    "down_proj": f"{MLP}.down_proj={SHARED}.down_proj",
}
"""The feed-forward of a layer without experts, or the shared experts."""
UNUSED = (".rotary_emb.inv_freq", "layers.46.*", "layers.92.*")
LAYER = {
    **llama.LAYER,
    **qwen2_moe.EXPERTS,
    **FOR_ALL,
    "qkv_proj": (llama.LAYER["qkv_proj"], spread_rotary),
    "q_norm?": ("layers.{}.self_attn.q_norm", spread_rotary),
    "k_norm?": ("layers.{}.self_attn.k_norm", spread_rotary),
    "choice_bias": "layers.{0}.mlp.gate.e_score_correction_bias",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; extra layers for multi-token prediction are not read."""
    same = llama.decoder({"rms_norm_eps": 1e-5, **config}, partial=0.5)
    return replace(same, experts=experts(config, len(same.layers)))


def experts(config: Config, layers: int) -> Experts:
    """The experts, after the first layers."""
    return Experts(
        layers=tuple(range(config.get("first_k_dense_replace", 1), layers)),
        count=config.get("n_routed_experts", 128),
        chosen=config.get("num_experts_per_tok", 8),
        size=config["moe_intermediate_size"],
        scores="sigmoid",
        normalised=config.get("norm_topk_prob", True),
        scale=config.get("routed_scaling_factor", 1.0),
        groups=config.get("n_group", 1),
        chosen_groups=config.get("topk_group", 1),
        shared=config.get("n_shared_experts", 1) > 0,
    )
