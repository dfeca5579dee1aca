"""StarCoder2: Llama's attention with GPT-2's norms and feed-forward."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import activation, llama
from model_store.families.llama import MODEL, PREFIX, UNUSED

TIED = True
LAYER = {name: source for name, source in llama.LAYER.items() if name != "gate_up_proj"} | {
    "up_proj": "layers.{}.mlp.c_fc",
    "down_proj": "layers.{}.mlp.c_proj",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder(config)
    window = config.get("sliding_window") or 0
    return replace(
        same,
        layers=tuple(replace(attention, window=window) for attention in same.layers),
        norm="layer",
        epsilon=config.get("norm_epsilon", 1e-5),
        activation=activation(config.get("hidden_act", "gelu_pytorch_tanh")),
    )
