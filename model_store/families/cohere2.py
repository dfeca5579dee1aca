"""Command R7B is Command R with windows, and without positions in layers that have none."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import alternate, cohere, windows, with_windows
from model_store.families.cohere import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json; every fourth layer has no window, unless `layer_types` says otherwise."""
    same = cohere.decoder({"rope_theta": 10_000.0, **config})
    each = windows(config, alternate(config, len(same.layers), 4), config.get("sliding_window", 4096))
    return with_windows(same, each, (None, same.layers[0].rope))
