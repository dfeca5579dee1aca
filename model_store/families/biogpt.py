"""BioGPT: OPT without its inner prefix, with an exact GELU and a scaled embedding."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import skip_two
from model_store.families import activation, opt
from model_store.families.opt import TIED, UNUSED

PREFIX = "biogpt."
MODEL = {
    "embedding": "embed_tokens",
    "position_embedding": ("embed_positions", skip_two),
    "norm": "layer_norm",
    "lm_head": "output_projection=lm_head",
}
LAYER = {name: source.replace("decoder.", "") for name, source in opt.LAYER.items()}


def decoder(config: Config) -> Decoder:
    """Read config.json; its layer_norm_eps is not what the model was trained with, nor what transformers uses."""
    return replace(
        opt.decoder(config),
        activation=activation(config.get("hidden_act", "gelu")),
        embedding_scale=config["hidden_size"] ** 0.5 if config.get("scale_embedding", True) else 1.0,
    )
