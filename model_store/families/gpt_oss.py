"""gpt-oss: windows in every other layer, attention sinks, and experts with a clamped gate, published in mxfp4."""

from dataclasses import replace

import numpy as np

from backends.decoder import Clamped, Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import transpose
from model_store.families import llama, mixtral, windows, with_windows
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED


def gates_first(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder alternating rows of gate and up to all of gate, then all of up."""
    return np.concatenate([values[::2], values[1::2]])


EXPERTS = "layers.{0}.mlp.experts"
LAYER = {
    **{name: source for name, source in llama.LAYER.items() if ".mlp." not in source},
    "sinks": "layers.{}.self_attn.sinks",
    "router": "layers.{}.mlp.router",
    "experts.gate_up_proj": (EXPERTS + ".gate_up_proj[{1}]", transpose, gates_first),
    "experts.down_proj": (EXPERTS + ".down_proj[{1}]", transpose),
}
SCALING: Config = {
    "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 4096,
}  # fmt: skip
"""The scaling of positions where config.json has none."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    stretched = config.get("rope_scaling") or config.get("rope_parameters") or SCALING
    turning = {"rope_theta": config.get("rope_theta") or 150_000.0, "rope_scaling": stretched}
    same = llama.decoder({"head_dim": 64, "rms_norm_eps": 1e-5, **config, **turning})
    kinds = ["full_attention" if i % 2 else "sliding_attention" for i in range(len(same.layers))]
    each = windows(config, kinds, config.get("sliding_window", 128))
    experts = mixtral.experts({"num_local_experts": 128, "num_experts_per_tok": 4, **config}, len(same.layers))
    clamped = Clamped(config.get("swiglu_alpha", 1.702), config.get("swiglu_limit", 7.0))
    return replace(with_windows(same, each), experts=replace(experts, clamped=clamped))
