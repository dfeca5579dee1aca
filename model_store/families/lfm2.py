"""LFM2 and LFM2.5 of Liquid AI: most layers are short convolutions over three tokens, and few attend."""

from dataclasses import replace

from backends.decoder import Decoder, ShortConvolution
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import flattened
from model_store.families import kinds_of, llama
from model_store.families.llama import PREFIX, UNUSED

TIED = True
MODEL = {**llama.MODEL, "norm": "embedding_norm"}
LAYER = {
    "attention_norm": "layers.{}.operator_norm",
    "qkv_proj": llama.LAYER["qkv_proj"],
    "q_norm": "layers.{}.self_attn.q_layernorm",
    "k_norm": "layers.{}.self_attn.k_layernorm",
    "in_proj": "layers.{}.conv.in_proj",
    "convolution": ("layers.{}.conv.conv", flattened),
    "o_proj": "layers.{0}.self_attn.out_proj=layers.{0}.conv.out_proj",
    "ffn_norm": "layers.{}.ffn_norm",
    "gate_up_proj": "layers.{0}.feed_forward.w1 layers.{0}.feed_forward.w3",
    "down_proj": "layers.{}.feed_forward.w2",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; all layers attend, unless `layer_types` or `full_attn_idxs` says otherwise."""
    own = {"rms_norm_eps": config.get("norm_eps", 1e-5), "hidden_act": "silu"}
    same = llama.decoder({"rope_theta": 1_000_000.0, **config, **own})
    every = range(len(same.layers))
    attending = every if config.get("full_attn_idxs") is None else config["full_attn_idxs"]
    default = ["full_attention" if i in attending else "conv" for i in every]
    convolution = replace(same.layers[0], rope=None, recurrence=ShortConvolution(config.get("conv_L_cache", 3)))
    of_kind = {"full_attention": same.layers[0], "conv": convolution}
    return replace(same, layers=tuple(of_kind[kind] for kind in kinds_of(config, default, *of_kind)))
