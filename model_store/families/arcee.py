"""Arcee is Llama with a squared ReLU, and no gate."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {name: source for name, source in llama.LAYER.items() if name != "gate_up_proj"} | {
    "up_proj": "layers.{}.mlp.up_proj"
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder({"hidden_act": "relu2", **config})
    return replace(same, epsilon=config.get("rms_norm_eps", 1e-5))
