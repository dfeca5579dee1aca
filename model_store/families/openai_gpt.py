"""The first GPT: GPT-2 with norms after each addition, and none at the end."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import activation, gpt2
from model_store.families.gpt2 import PREFIX, TIED, UNUSED

MODEL = {"embedding": "tokens_embed", "position_embedding": "positions_embed", "lm_head": "lm_head"}
LAYER = {name: source for name, source in gpt2.LAYER.items() if not name.endswith("_norm")} | {
    "attention_sum_norm": gpt2.LAYER["attention_norm"],
    "ffn_sum_norm": gpt2.LAYER["ffn_norm"],
}

SCALED: Config = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
"""What GPT-2 has made of its scores' scale, and this model has not."""


def decoder(config: Config) -> Decoder:
    """Read config.json, in whose words gelu is GPT-2's."""
    name = config.get("afn", "gelu")
    return replace(gpt2.decoder({**config, **SCALED}), activation=activation("gelu_new" if name == "gelu" else name))
