"""StableLM: Llama with layer norms and partly rotary positions; some have both branches side by side under one norm."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, rope
from model_store.checkpoint.weights import spread_rotary
from model_store.families import llama
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {name: source for name, source in llama.LAYER.items() if name != "ffn_norm"} | {
    "qkv_proj": (llama.LAYER["qkv_proj"], spread_rotary),
    "ffn_norm?": llama.LAYER["ffn_norm"],
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same = llama.decoder({**config, **UNSCALED})
    turned = rope(config, same.layers[0].head_dim, partial=config.get("partial_rotary_factor", 0.25))
    return replace(
        same,
        layers=tuple(replace(attention, rope=turned) for attention in same.layers),
        norm="layer",
        epsilon=config.get("layer_norm_eps", 1e-5),
        parallel=bool(config.get("use_parallel_residual")),
    )
