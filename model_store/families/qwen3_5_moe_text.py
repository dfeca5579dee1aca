"""Qwen3.5 with many small experts in every layer, and a gated shared one."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import qwen2_moe, qwen2_vl, qwen3_5_text
from model_store.families.qwen3_5_text import MODEL, PREFIX, TIED, UNUSED

LISTS = "layers.{0}.mlp.experts"
MIXTURE = {
    "experts.gate_up_proj?": f"{LISTS}.gate_up_proj[{{1}}]",
    "experts.down_proj?": f"{LISTS}.down_proj[{{1}}]",
    **qwen2_moe.EXPERTS,
    **{name: qwen2_moe.LAYER[name] for name in ("gate_up_proj", "down_proj", "shared_gate")},
}
LAYER = {**qwen3_5_text.LAYER, **MIXTURE}


def decoder(config: Config) -> Decoder:
    """Read config.json, or its `text_config`."""
    same = qwen3_5_text.decoder(config)
    text = {**qwen2_vl.text_of(config), "norm_topk_prob": True}
    return replace(same, experts=qwen2_moe.experts(text, len(same.layers), shared=True))
