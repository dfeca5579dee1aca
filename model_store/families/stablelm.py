"""StableLM: Llama with layer norms and partly rotary positions; some have both branches side by side under one norm."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import spread_rotary
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {name: source for name, source in llama.LAYER.items() if name != "ffn_norm"} | {
    "qkv_proj": (llama.LAYER["qkv_proj"], spread_rotary),
    "ffn_norm?": llama.LAYER["ffn_norm"],
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    return replace(
        llama.decoder(config, partial=0.25),
        norm="layer",
        epsilon=config.get("layer_norm_eps", 1e-5),
        parallel=bool(config.get("use_parallel_residual")),
    )
