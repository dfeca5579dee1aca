"""Gemma 3n: AltUp's residual streams, per-layer embeddings, and last layers without keys of their own."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, far_and_near
from model_store.errors import UnsupportedCheckpoint
from model_store.families import activation, alternate, gemma, gemma4_text, given, llama, windows, with_windows
from model_store.families.gemma4_text import TIED, UNUSED

PREFIX = "model."
RESIDUALS = 4
"""The number of streams for which tensors are listed below."""
TEXT = 262_144
"""Text tokens; those after them are for images and sounds, and have no per-layer embedding."""


def of_text(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The rows of text tokens."""
    return values[:TEXT]


def by_size(values: np.ndarray, layer: Layer) -> np.ndarray:
    """A norm of all elements, divided by their number."""
    return values / np.float32(len(values))


def times_last(values: np.ndarray, layer: Layer) -> np.ndarray:
    """A matrix whose columns are multiplied by its last row."""
    return np.asarray(values[:-1], np.float32) * np.asarray(values[-1], np.float32)


MODEL = {
    **gemma4_text.MODEL,
    "embedding": ("embed_tokens", of_text),
    "lm_head": ("lm_head", of_text),
    "altup_proj": " ".join(f"altup_projections.{i}" for i in range(RESIDUALS - 1)),
    "altup_out": " ".join(f"altup_unembed_projections.{i}" for i in range(RESIDUALS - 1)),
}
LAYER = {
    **llama.LAYER,
    **{name: gemma4_text.LAYER[name] for name in ("q_norm", "k_norm", "v_norm", "post_attention_norm", "ffn_norm")},
    **{name: gemma4_text.LAYER[name] for name in ("post_ffn_norm", "per_layer_out", "post_per_layer_norm")},
    "per_layer_gate": ("layers.{0}.per_layer_input_gate layers.{0}.altup.correct_output_scale", times_last),
    "altup_norm": ("layers.{}.altup.router_norm", by_size),
    "altup_router": "layers.{}.altup.modality_router",
    "altup_prediction": "layers.{}.altup.prediction_coefs",
    "altup_correction": "layers.{}.altup.correction_coefs",
    "laurel_down": "layers.{}.laurel.linear_left",
    "laurel_up": "layers.{}.laurel.linear_right",
    "laurel_norm": "layers.{}.laurel.post_laurel_norm",
}
DEFAULTS: Config = {
    "vocab_size": 262_400,
    "vocab_size_per_layer_input": TEXT,
    "hidden_size": 2048,
    "hidden_size_per_layer_input": 256,
    "num_hidden_layers": 35,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_kv_shared_layers": 15,
    "head_dim": 256,
    "max_position_embeddings": 32_768,
    "final_logit_softcapping": 30.0,
}
"""What config.json may leave out."""
ONLY = {"altup_num_inputs": RESIDUALS, "altup_active_idx": 0, "altup_correct_scale": True}
"""What all published models have."""


def decoder(config: Config) -> Decoder:
    """Read config.json; every fifth layer has no window, unless `layer_types` says otherwise."""
    config = {**DEFAULTS, **given(config)}
    for name, value in ONLY.items():
        if config.get(name, value) != value:
            raise UnsupportedCheckpoint(f"gemma3n with {name} (config.json) other than {value} is not supported")
    vocabulary = min(config["vocab_size"], TEXT)
    if config["vocab_size_per_layer_input"] != vocabulary:
        says = f"config.json tells of {config['vocab_size_per_layer_input']:,} (vocab_size_per_layer_input)"
        raise UnsupportedCheckpoint(f"{says} of {vocabulary:,} tokens of texts, and all have embeddings in each layer")
    same = gemma.decoder({**config, **UNSCALED, "vocab_size": vocabulary, "hidden_act": "gelu"})
    size, count = config["hidden_size_per_layer_input"], len(same.layers)
    ropes = far_and_near(config, same.layers[0].head_dim, theta=1_000_000.0, near_theta=10_000.0)
    each = windows(config, alternate(config, count, 5), config.get("sliding_window", 512))
    unscaled = replace(same, layers=(replace(same.layers[0], scale=1.0),))
    shared = gemma4_text.share([*with_windows(unscaled, each, ropes).layers], config["num_kv_shared_layers"])
    layers = (replace(layer, cutoff=cut) for layer, cut in zip(shared, cutoffs(config, count), strict=True))
    return replace(
        same,
        layers=tuple(layers),
        activation=activation(config.get("hidden_activation", "gelu_pytorch_tanh")),
        logit_softcap=config["final_logit_softcapping"],
        per_layer_size=size,
        per_layer_scale=(size / 2) ** 0.5,
        residuals=RESIDUALS,
    )


def cutoffs(config: Config, count: int) -> list[float | None]:
    """Each layer's gate cutoff, for the share of zeros in `activation_sparsity_pattern`."""
    sparse = 10 if count > 10 else 0
    shares = config.get("activation_sparsity_pattern", [0.95] * sparse + [0.0] * (count - sparse))
    if len(shares) != count:
        raise ValueError(f"activation_sparsity_pattern tells of {len(shares)} layers, there are {count}")
    return [NormalDist().inv_cdf(share) if share else None for share in shares]
