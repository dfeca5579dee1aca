"""Ministral 3 is Mistral with scaled positions, whose queries grow beyond the original context."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import mistral
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED

SCALING: Config = dict(
    type="yarn", rope_theta=1_000_000.0, factor=16.0, original_max_position_embeddings=16_384
) | dict(mscale=1.0, mscale_all_dim=1.0)


def decoder(config: Config) -> Decoder:
    """Read config.json; the context ends where queries begin to grow (`llama_4_scaling_beta`)."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or SCALING
    usual = {"sliding_window": None, "head_dim": 128, "rms_norm_eps": 1e-5}
    same = mistral.decoder({**usual, **config, "rope_scaling": scaling})
    if not scaling.get("llama_4_scaling_beta", 0.1):
        return same
    first = scaling.get("original_max_position_embeddings") or same.context_length
    return replace(same, context_length=min(first, same.context_length))
