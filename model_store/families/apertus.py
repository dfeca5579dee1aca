"""Apertus: Llama with query and key norms, and an activation (xIELU) learned per layer."""

from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint, cut
from model_store.families import llama, qwen3
from model_store.families.llama import MODEL, PREFIX, TIED

UNUSED = (*llama.UNUSED, ".mlp.act_fn.eps")


def factors(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Compute xIELU's factors for square, exponential and line from the two learned numbers and beta."""
    values = np.asarray(values, np.float32)
    square, bent = np.logaddexp(0, values[:2])
    return np.array([square, values[2] + bent, -bent], np.float32)


ACTIVATION = "layers.{0}.mlp.act_fn."
LAYER = {name: source for name, source in qwen3.LAYER.items() if name != "gate_up_proj"} | {
    "attention_norm": "layers.{}.attention_layernorm",
    "ffn_norm": "layers.{}.feedforward_layernorm",
    "up_proj": "layers.{}.mlp.up_proj",
    "xielu": (f"{ACTIVATION}alpha_p {ACTIVATION}alpha_n {ACTIVATION}beta", factors),
}
SCALING: Config = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0) | dict(
    original_max_position_embeddings=8192
)


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    if (kind := config.get("hidden_act", "xielu")) != "xielu":
        raise UnsupportedCheckpoint(f"apertus with the activation {cut(kind)} is not supported")
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or SCALING
    usual = {"rope_theta": 12_000_000.0, "rms_norm_eps": 1e-5}
    return replace(
        llama.decoder({**usual, **config, "rope_scaling": scaling, "hidden_act": "silu"}), activation="xielu"
    )
