"""SmolLM3 is Llama without positions on every fourth layer."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import llama, windows
from model_store.families.llama import LAYER, MODEL, PREFIX, UNUSED

TIED = True


def decoder(config: Config) -> Decoder:
    """Read config.json; `no_rope_layers` holds a 1 for each layer that does have rotary positions."""
    same = llama.decoder({"rope_theta": 2_000_000.0, **config})
    count, interval = len(same.layers), config.get("no_rope_layer_interval", 4)
    turned = config.get("no_rope_layers") or [(i + 1) % interval for i in range(count)]
    default = ["full_attention" if turns else "sliding_attention" for turns in turned]
    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    layers = (
        replace(layer, rope=layer.rope if turns else None, window=window)
        for layer, turns, window in zip(same.layers, turned, windows(config, default, window), strict=True)
    )
    return replace(same, layers=tuple(layers))
