"""OLMoE: OLMo 2's normalised queries and keys, Llama's norms, and many small experts."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import olmo2, qwen2_moe, qwen3
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {**{name: source for name, source in qwen3.LAYER.items() if ".mlp." not in source}, **qwen2_moe.EXPERTS}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    if config.get("clip_qkv"):
        raise UnsupportedCheckpoint("olmoe with clipped queries and keys (clip_qkv in config.json) is not supported")
    same = olmo2.decoder(config)
    own = {"moe_intermediate_size": config["intermediate_size"], "decoder_sparse_step": 1, "mlp_only_layers": []}
    return replace(same, experts=qwen2_moe.experts({**config, **own}, len(same.layers), shared=False))
