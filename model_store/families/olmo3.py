"""OLMo 3 is OLMo 2 with windows; layers with a window have unscaled positions."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, far_and_near
from model_store.families import alternate, olmo2, windows, with_windows
from model_store.families.olmo2 import LAYER, MODEL, PREFIX, TIED, UNUSED


def decoder(config: Config) -> Decoder:
    """Read config.json; every fourth layer has no window, unless `layer_types` says otherwise."""
    same = olmo2.decoder({**config, **UNSCALED})
    ropes = far_and_near(config, same.layers[0].head_dim, theta=500_000.0, near_theta=500_000.0)
    each = windows(config, alternate(config, len(same.layers), 4), config.get("sliding_window", 4096))
    return with_windows(same, each, ropes)
