"""MPT: ALiBi instead of positions, layer norms and matrices without biases."""

import math

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint, cut

PREFIX = "transformer."
TIED = True
UNUSED = ()
MODEL = {"embedding": "wte", "norm": "norm_f", "lm_head": "lm_head"}
LAYER = {
    "attention_norm": "blocks.{}.norm_1",
    "qkv_proj": "blocks.{}.attn.Wqkv",
    "o_proj": "blocks.{}.attn.out_proj",
    "ffn_norm": "blocks.{}.norm_2",
    "up_proj": "blocks.{}.ffn.up_proj",
    "down_proj": "blocks.{}.ffn.down_proj",
}
USUAL = {"attn_type": "multihead_attention", "alibi": True, "qk_ln": False, "prefix_lm": False}
"""The values that `attn_config` has, or leaves out, in models that transformers runs."""


def decoder(config: Config) -> Decoder:
    """Read config.json; positions are relative, so the context length is what the model was trained with."""
    heads, size, own = config["n_heads"], config["d_model"], config.get("attn_config") or {}
    for name, usual in USUAL.items():
        if (own.get(name, usual) or None) != (usual or None):
            raise UnsupportedCheckpoint(
                f"mpt with {name} {cut(own[name])} (attn_config in config.json) is not supported"
            )
    if config.get("logit_scale"):
        raise UnsupportedCheckpoint("mpt with a scale of logits (logit_scale in config.json) is not supported")
    head_dim = size // heads
    bias = slopes(heads, own.get("alibi_bias_max") or 8)
    layer = Layer(heads, heads, head_dim, own.get("softmax_scale") or head_dim**-0.5, alibi=bias)
    return Decoder(
        layers=(layer,) * config["n_layers"],
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=config.get("max_seq_len", 2048),
        norm="layer",
        epsilon=config.get("layer_norm_epsilon", 1e-5),
        activation="gelu",
        qkv_clip=own.get("clip_qkv") or 0.0,
    )


def slopes(heads: int, most: float) -> tuple[float, ...]:
    """ALiBi's slopes: a geometric series for the next power of two heads, every other term of it first.

    Press, Smith and Lewis, https://arxiv.org/abs/2108.12409.
    """
    power = 2 ** math.ceil(math.log2(heads))
    series = tuple(2 ** (-most * (i + 1) / power) for i in range(power))
    return series if power == heads else (*series[1::2], *series[::2])[:heads]
