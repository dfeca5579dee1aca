"""Trinity of Arcee: norms before and after each branch, gated attention, experts chosen by biased sigmoids."""

from dataclasses import replace

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.families import alternate, given, glm4_moe, llama, qwen2_moe, windows, with_windows
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    **qwen2_moe.EXPERTS,
    **glm4_moe.FOR_ALL,
    "q_norm": "layers.{}.self_attn.q_norm",
    "k_norm": "layers.{}.self_attn.k_norm",
    "attention_gate": "layers.{}.self_attn.gate_proj",
    "post_attention_norm": "layers.{}.post_attention_layernorm",
    "ffn_norm": "layers.{}.pre_mlp_layernorm",
    "post_ffn_norm": "layers.{}.post_mlp_layernorm",
    "router": "layers.{}.mlp.router.gate",
    "choice_bias": "layers.{}.mlp.expert_bias",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; every fourth layer has no window and no positions, unless `layer_types` says otherwise."""
    config = {"rms_norm_eps": 1e-5, "head_dim": 128, **given(config)}
    same = llama.decoder(config)
    default = alternate(config, len(same.layers), config.get("global_attn_every_n_layers", 4))
    each = windows(config, default, config.get("sliding_window", 1024))
    experts = Experts(
        layers=tuple(range(config.get("num_dense_layers", 1), len(same.layers))),
        count=config.get("num_experts", 64),
        chosen=config.get("num_experts_per_tok", 6),
        size=config["moe_intermediate_size"],
        scores="sigmoid",
        scale=config.get("route_scale", 1.0),
        shared=config.get("num_shared_experts", 2) > 0,
    )
    scale = config["hidden_size"] ** 0.5 if config.get("mup_enabled") else 1.0
    return replace(with_windows(same, each, (None, same.layers[0].rope)), experts=experts, embedding_scale=scale)
