"""StarCoder2: Llama's attention with GPT-2's norms and feed-forward."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import activation, llama, with_windows
from model_store.families.llama import MODEL, PREFIX, UNUSED

TIED = True
LAYER = {name: source for name, source in llama.LAYER.items() if name != "gate_up_proj"} | {
    "up_proj": "layers.{}.mlp.c_fc",
    "down_proj": "layers.{}.mlp.c_proj",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder(config)
    return replace(
        with_windows(same, [config.get("sliding_window") or 0] * len(same.layers)),
        norm="layer",
        epsilon=config.get("norm_epsilon", 1e-5),
        activation=activation(config.get("hidden_act", "gelu_pytorch_tanh")),
    )
