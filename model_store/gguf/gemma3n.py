"""Gemma 3n in GGUF files: AltUp's residuals and per-layer embeddings."""

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np

from backends.decoder import Layer
from model_store.checkpoint.weights import Source
from model_store.families.gemma3n_text import TEXT, by_size, of_text, times_last
from model_store.gguf import gemma4
from model_store.gguf.adjustments import Fields

KEYS = {
    **{key: field for key, field in gemma4.KEYS.items() if not key.endswith("_swa")},
    "altup.active_idx": "altup_active_idx",
    "altup.num_inputs": "altup_num_inputs",
    "rope.freq_base_swa": "rope_local_base_freq",
}
EACH = {"activation_sparsity_scale": "cutoffs"}


def below(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Stack a list of matrices by rows."""
    return values.reshape(-1, values.shape[-1])


MODEL: Mapping[str, Source] = {
    "embedding": ("token_embd", of_text),
    "per_layer_embedding": ("per_layer_token_embd", of_text),
    "altup_proj": ("altup_proj", below),
    "altup_out": ("altup_unembd_proj", below),
}
LAYER: Mapping[str, Source] = {
    **{name: source for name, source in gemma4.LAYER.items() if name != "scalar"},
    "per_layer_gate": ("blk.{0}.inp_gate blk.{0}.altup_correct_scale", times_last),
    "altup_norm": ("blk.{}.altup_router_norm", by_size),
    "altup_router": "blk.{}.altup_router",
    "altup_prediction": "blk.{}.altup_predict_coef",
    "altup_correction": "blk.{}.altup_correct_coef",
    "laurel_down": "blk.{}.laurel_l",
    "laurel_up": "blk.{}.laurel_r",
    "laurel_norm": "blk.{}.laurel_post_norm",
}


def adjust(config: Fields) -> None:
    """Convert gate cutoffs to shares of zeros; and per-layer embeddings for all text tokens."""
    if cutoffs := config.pop("cutoffs", None):
        config["activation_sparsity_pattern"] = [NormalDist().cdf(each) for each in cutoffs]
    config["vocab_size_per_layer_input"] = min(config["vocab_size"], TEXT)
