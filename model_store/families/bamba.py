"""Bamba: Llama with partly rotary positions; most layers are Mamba-2, and few attend."""

from dataclasses import replace

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import spread_rotary
from model_store.families import given, granitemoehybrid, jamba, llama
from model_store.families.jamba import MODEL
from model_store.families.llama import PREFIX, TIED, UNUSED

STATE = "layers.{0}.mamba"
LAYER = {
    **llama.LAYER,
    **{name: jamba.LAYER[name] for name in ("ffn_norm", "gate_up_proj", "down_proj", "o_proj")},
    "qkv_proj": (llama.LAYER["qkv_proj"], spread_rotary),
    **granitemoehybrid.state_weights(STATE),
}


def decoder(config: Config) -> Decoder:
    """Read config.json; the layers that `attn_layer_indices` names attend."""
    config = {"rms_norm_eps": 1e-5, "num_key_value_heads": 8, **given(config)}
    same = llama.decoder(config, partial=0.5)
    state = granitemoehybrid.state_of(config, config.get("mamba_expand", 2) * same.hidden_size)
    attending = config.get("attn_layer_indices", [])
    keeping = replace(same.layers[0], rope=None, recurrence=state)
    return replace(same, layers=tuple(a if i in attending else keeping for i, a in enumerate(same.layers)))
