"""HyperCLOVA X SEED Think is Granite with norms before and after each branch, and scaled logits."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import given, granite, llama
from model_store.families.granite import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    "post_attention_norm?": "layers.{}.post_norm1",
    "post_ffn_norm?": "layers.{}.post_norm2",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    if config.get("use_post_norm", True) and config.get("residual_multiplier", 1.0) != 1:
        raise UnsupportedCheckpoint("hyperclovax with norms behind branches and a residual_multiplier is not supported")
    usual = llama.decoder(config).layers[0].scale
    same = granite.decoder({"attention_multiplier": usual, **config})
    return replace(same, output_scale=config.get("logits_scaling", 1.0))
