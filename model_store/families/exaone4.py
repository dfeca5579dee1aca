"""EXAONE 4: norms behind the branches, normalised queries and keys; beside windows, full layers have no positions."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import alternate, llama, windows
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {name: source for name, source in llama.LAYER.items() if not name.endswith("_norm")} | {
    "q_norm": "layers.{}.self_attn.q_norm",
    "k_norm": "layers.{}.self_attn.k_norm",
    "post_attention_norm": "layers.{}.post_attention_layernorm",
    "post_ffn_norm": "layers.{}.post_feedforward_layernorm",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; every fourth layer sees everything, unless `layer_types` says which do."""
    same, window = llama.decoder(config), config.get("sliding_window", 4096)
    default = alternate(config, len(same.layers), 4)
    layers = (
        replace(attention, window=near, rope=attention.rope if near or not window else None)
        for attention, near in zip(same.layers, windows(config, default, window), strict=True)
    )
    return replace(same, layers=tuple(layers), epsilon=config.get("rms_norm_eps", 1e-5))
