"""GPT-J: attention and feed-forward side by side under one norm; neighbours rotated on part of each head."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint import Config
from model_store.families import gpt2
from model_store.families.gpt2 import PREFIX, UNUSED
from model_store.rope import rope
from model_store.weights import halve_rotary

TIED = False
MODEL = {"embedding": "wte", "norm": "ln_f", "lm_head": "lm_head"}
LAYER = {
    "attention_norm": "h.{}.ln_1",
    "qkv_proj": ("h.{0}.attn.q_proj h.{0}.attn.k_proj h.{0}.attn.v_proj", halve_rotary),
    "o_proj": "h.{}.attn.out_proj",
    "up_proj": "h.{}.mlp.fc_in",
    "down_proj": "h.{}.mlp.fc_out",
}

__all__ = ["LAYER", "MODEL", "PREFIX", "TIED", "UNUSED", "decoder"]


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = gpt2.decoder(config)
    turned = rope(config, same.layers[0].head_dim)
    return replace(same, parallel=True, layers=tuple(replace(attention, rope=turned) for attention in same.layers))
