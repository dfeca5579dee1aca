"""EXAONE 4: norms after the branches, on queries and on keys; with windows, full layers have no positions."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import alternate, llama, windows, with_windows
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {name: source for name, source in llama.LAYER.items() if not name.endswith("_norm")} | {
    "q_norm": "layers.{}.self_attn.q_norm",
    "k_norm": "layers.{}.self_attn.k_norm",
    "post_attention_norm": "layers.{}.post_attention_layernorm",
    "post_ffn_norm": "layers.{}.post_feedforward_layernorm",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; every fourth layer has no window, unless `layer_types` says otherwise."""
    same, window = llama.decoder({"rms_norm_eps": 1e-5, **config}), config.get("sliding_window", 4096)
    each, rope = windows(config, alternate(config, len(same.layers), 4), window), same.layers[0].rope
    return with_windows(same, each, (None if window else rope, rope))
