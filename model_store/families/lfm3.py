"""LFM3: LFM2 with norms before and after each branch, windows, and a gate for each attention head."""

from dataclasses import replace

from backends.decoder import Decoder, ShortConvolution
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, far_and_near
from model_store.families import given, kinds_of, lfm2, llama
from model_store.families.lfm2 import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **lfm2.LAYER,
    "q_norm": "layers.{}.self_attn.q_norm",
    "k_norm": "layers.{}.self_attn.k_norm",
    "attention_gate?": "layers.{}.self_attn.gate_proj",
    "o_proj": "layers.{0}.self_attn.o_proj=layers.{0}.conv.out_proj",
    "post_attention_norm?": "layers.{}.post_operator_norm",
    "post_ffn_norm?": "layers.{}.post_ffn_norm",
}
TURNS: Config = {
    "full_attention": {"rope_type": "proportional", "rope_theta": 1_000_000.0, "partial_rotary_factor": 0.5}
}
"""What config.json may leave out of `rope_parameters`."""


def decoder(config: Config) -> Decoder:
    """Read config.json; by default half of the layers attend, every other one of these with a window."""
    config = {"head_dim": 128, **given(config)}
    same = llama.decoder({**config, **UNSCALED, "rms_norm_eps": config.get("norm_eps", 1e-5), "hidden_act": "silu"})
    far, near = far_and_near({"rope_parameters": TURNS, **config}, same.layers[0].head_dim, theta=1e6, near_theta=1e4)
    default = [
        "full_attention" if i % 4 == 2 else "sliding_attention" if i and i % 4 == 0 else "conv"
        for i in range(len(same.layers))
    ]
    attending = replace(same.layers[0], gates="head")
    of_kind = {
        "full_attention": replace(attending, rope=far),
        "sliding_attention": replace(attending, rope=near, window=config.get("sliding_window", 256)),
        "conv": replace(same.layers[0], rope=None, recurrence=ShortConvolution(config.get("conv_L_cache", 7))),
    }
    return replace(same, layers=tuple(of_kind[kind] for kind in kinds_of(config, default, *of_kind)))
