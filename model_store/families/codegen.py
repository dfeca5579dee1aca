"""CodeGen: GPT-J with a fused projection, laid out for four processors and in the order q, v, k."""

import numpy as np

from backends.decoder import Layer
from model_store.checkpoint.weights import halve_rotary
from model_store.families import gptj
from model_store.families.gptj import MODEL, PREFIX, TIED, decoder

PROCESSORS = 4


def order_qkv(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder (processor, q v k, rows) to all q, all k, all v."""
    parts = values.reshape(PROCESSORS, 3, -1, *values.shape[1:])
    return parts[:, [0, 2, 1]].swapaxes(0, 1).reshape(values.shape)


UNUSED = (".attn.causal_mask", *gptj.UNUSED)
LAYER = {**gptj.LAYER, "qkv_proj": ("h.{}.attn.qkv_proj", order_qkv, halve_rotary)}
