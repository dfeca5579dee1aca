"""Youtu-LLM: Llama with DeepSeek's latent attention."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import deepseek_v2, given, llama
from model_store.families.llama import MODEL, PREFIX, UNUSED

TIED = True
LAYER = {**{name: source for name, source in llama.LAYER.items() if name != "qkv_proj"}, **deepseek_v2.LATENT}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    return deepseek_v2.attend(config, llama.decoder(deepseek_v2.without_latents(config)))
