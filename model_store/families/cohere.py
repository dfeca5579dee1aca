"""Command R: attention and feed-forward side by side under one layer norm; interleaved rotary pairs."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import halve_rotary
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, UNUSED

TIED = True
LAYER = {name: source for name, source in llama.LAYER.items() if name != "ffn_norm"} | {
    "qkv_proj": (llama.LAYER["qkv_proj"], halve_rotary)
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return replace(
        llama.decoder({"rope_theta": 500_000.0, **config}),
        norm="layer",
        epsilon=config.get("layer_norm_eps", 1e-5),
        parallel=True,
        output_scale=config.get("logit_scale", 0.0625),
    )
