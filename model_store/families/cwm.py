"""CWM, the Code World Model, is Llama 3 with windows."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import apertus, llama, windows, with_windows
from model_store.families.llama import LAYER, MODEL, PREFIX, TIED, UNUSED

SCALING: Config = {**apertus.SCALING, "factor": 16.0}
"""The scaling of positions where config.json has none."""


def decoder(config: Config) -> Decoder:
    """Read config.json; the first and every fourth layer have no window, unless `layer_types` says otherwise."""
    scaled = {} if config.get("rope_parameters") or config.get("rope_scaling") else {"rope_scaling": SCALING}
    same = llama.decoder({"head_dim": 128, "rope_theta": 1_000_000.0, "rms_norm_eps": 1e-5, **config, **scaled})
    default = ["sliding_attention" if i % 4 else "full_attention" for i in range(len(same.layers))]
    return with_windows(same, windows(config, default, config.get("sliding_window", 8192)))
