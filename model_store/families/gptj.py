"""GPT-J: attention and feed-forward side by side under one norm; partly rotary, in interleaved pairs."""

from dataclasses import replace

from backends.decoder import Decoder, Rope
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import padded, turning
from model_store.checkpoint.weights import halve_rotary
from model_store.families import gpt2
from model_store.families.gpt2 import PREFIX, UNUSED

TIED = False
MODEL = {"embedding": "wte", "norm": "ln_f", "lm_head": "lm_head"}
LAYER = {
    "attention_norm": "h.{}.ln_1",
    "qkv_proj": ("h.{0}.attn.q_proj h.{0}.attn.k_proj h.{0}.attn.v_proj", halve_rotary),
    "o_proj": "h.{}.attn.out_proj",
    "up_proj": "h.{}.mlp.fc_in",
    "down_proj": "h.{}.mlp.fc_out",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; scores' scale and rotary base are the same for all models."""
    same = gpt2.decoder({**config, **gpt2.UNREAD})
    head_dim = same.layers[0].head_dim
    turned = padded(Rope(tuple(turning(config.get("rotary_dim", 64), head_dim, 10_000.0))), head_dim)
    return replace(same, parallel=True, layers=tuple(replace(layer, rope=turned) for layer in same.layers))
