"""Qwen's first mixtures: Qwen2 with many small experts in some layers, and a gated shared one."""

from dataclasses import replace

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.families import field, qwen2
from model_store.families.llama import LAYER as LLAMA
from model_store.families.qwen2 import MODEL, PREFIX, TIED, UNUSED

MLP, SHARED, EXPERT = "layers.{0}.mlp", "layers.{0}.mlp.shared_expert", "layers.{0}.mlp.experts.{1}"
EXPERTS = {
    "router": "layers.{}.mlp.gate",
    "experts.gate_up_proj": f"{EXPERT}.gate_proj {EXPERT}.up_proj",
    "experts.down_proj": f"{EXPERT}.down_proj",
}
LAYER = {
    **LLAMA,
    **EXPERTS,
    "gate_up_proj": f"{MLP}.gate_proj={SHARED}.gate_proj {MLP}.up_proj={SHARED}.up_proj",
    "down_proj": f"{MLP}.down_proj={SHARED}.down_proj",
    "shared_gate": "layers.{}.mlp.shared_expert_gate",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; by default, every other one of the first layers has a window."""
    first = config.get("max_window_layers", 28)
    kinds = [
        "full_attention" if i % 2 or i >= first else "sliding_attention" for i in range(config["num_hidden_layers"])
    ]
    same = qwen2.decoder({**config, "layer_types": config.get("layer_types") or kinds})
    return replace(same, experts=experts(config, len(same.layers), shared=True))


def experts(config: Config, layers: int, *, shared: bool) -> Experts:
    """The experts, in the layers that `decoder_sparse_step` selects and `mlp_only_layers` does not list."""
    step, dense = config.get("decoder_sparse_step") or 1, config.get("mlp_only_layers") or []
    return Experts(
        layers=tuple(i for i in range(layers) if (i + 1) % step == 0 and i not in dense),
        count=field(config, "num_experts", "num_local_experts"),
        chosen=config.get("num_experts_per_tok") or (4 if shared else 8),
        size=config["moe_intermediate_size"],
        normalised=config.get("norm_topk_prob", False),
        shared=shared,
    )
