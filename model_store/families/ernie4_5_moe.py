"""ERNIE 4.5's mixtures: scores with a bias choose the experts, and two experts are shared."""

from dataclasses import replace

from backends.decoder import Decoder, Experts
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import flat
from model_store.families import ernie4_5, glm4_moe, qwen2_moe
from model_store.families.ernie4_5 import MODEL, PREFIX, TIED

UNUSED = (".rotary_emb.inv_freq", "mtp_*")

LAYER = {
    **ernie4_5.LAYER,
    **qwen2_moe.EXPERTS,
    **glm4_moe.FOR_ALL,
    "choice_bias": ("layers.{0}.mlp.moe_statics.e_score_correction_bias", flat),
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = ernie4_5.decoder({"head_dim": config["hidden_size"] // config["num_attention_heads"], **config})
    first, last, every = (config.get(f"moe_layer_{key}") for key in ("start_index", "end_index", "interval"))
    last = len(same.layers) - 1 if last in (None, -1) else last
    experts = Experts(
        layers=tuple(i for i in range(1 if first is None else first, last + 1) if (i + 1) % (every or 1) == 0),
        count=config.get("moe_num_experts") or config.get("num_experts") or 64,
        chosen=config.get("moe_k") or config.get("num_experts_per_tok") or 6,
        size=config["moe_intermediate_size"],
        shared=config.get("moe_num_shared_experts", 2) > 0,
    )
    return replace(same, experts=experts)
