"""Qwen3-Next: Qwen3.5 with experts, and projections grouped by key head."""

import numpy as np

from backends.decoder import DeltaNet, Layer
from model_store.families import qwen3_5_moe_text
from model_store.families.qwen3_5_moe_text import MODEL, PREFIX, TIED, UNUSED, decoder


def parts_first(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder q, k, v and z of each key head in turn to all q, all k, all v, all z."""
    how = layer.recurrence
    assert isinstance(how, DeltaNet)  # only these layers have it
    heads = values.reshape(how.key_heads, -1, *values.shape[1:])
    shared = how.value_elements // how.key_heads
    parts = np.split(heads, np.cumsum([how.key_size, how.key_size, shared]), axis=1)
    return np.concatenate([part.reshape(-1, *values.shape[1:]) for part in parts])


def rates_first(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder b and a of each key head in turn to all b, all a."""
    how = layer.recurrence
    assert isinstance(how, DeltaNet)
    heads = values.reshape(how.key_heads, 2, -1, *values.shape[1:])
    return heads.swapaxes(0, 1).reshape(values.shape)


LAYER = {
    **qwen3_5_moe_text.LAYER,
    "qkvz_proj": ("layers.{}.linear_attn.in_proj_qkvz", parts_first),
    "rates_proj": ("layers.{}.linear_attn.in_proj_ba", rates_first),
}
