"""Falcon Mamba: Mamba, which normalises what steps, keys and queries are made of, by an epsilon of its own."""

from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import Source
from model_store.families import given, jamba, mamba
from model_store.families.mamba import MIXER, MODEL, PREFIX, TIED, UNUSED


def scaled(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The matrix before a norm: by larger numbers, the usual epsilon is as small beside them as that of these norms."""
    return np.asarray(values, np.float32) * np.float32(layer.gains[0])


def ones(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The weights of the norm behind a matrix."""
    return np.ones(len(values), np.float32)


MADE = {"steps_down": jamba.steps_first, "keys": jamba.keys_alone, "queries": jamba.queries_alone}
NORMED: dict[str, Source] = {f"{name}_proj": (f"{MIXER}.x_proj", part, scaled) for name, part in MADE.items()}
NORMS: dict[str, Source] = {f"{name}_norm": (f"{MIXER}.x_proj", part, ones) for name, part in MADE.items()}
LAYER = {**mamba.LAYER, **NORMED, **NORMS}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    same, epsilon = mamba.decoder(config), given(config).get("mixer_rms_eps", 1e-6)
    gains = ((same.epsilon / epsilon) ** 0.5,)
    return replace(same, layers=tuple(replace(layer, gains=gains) for layer in same.layers))
