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


def decoder(config: Config) -> Decoder:
    """Read config.json, whose gelu is GPT-2's."""
    same, name = gpt2.decoder({**config, **gpt2.UNREAD}), config.get("afn", "gelu")
    return replace(same, activation=activation("gelu_new" if name == "gelu" else name))
