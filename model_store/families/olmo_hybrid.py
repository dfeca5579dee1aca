"""OLMo Hybrid: OLMo 2 with gated delta nets in most layers, whose branches have norms before them."""

from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, DeltaNet, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import flattened
from model_store.errors import UnsupportedCheckpoint
from model_store.families import given, kinds_of, olmo2
from model_store.families.olmo2 import MODEL, PREFIX, TIED


def of_states(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The norm before a feed-forward, which only layers with a state have."""
    if layer.recurrence is None:
        raise UnsupportedCheckpoint(
            "a layer that attends has a norm before its feed-forward (feedforward_layer_norm): transformers has saved"
            " another one under this name; take the publisher's checkpoint"
        )
    return values


UNUSED = (*olmo2.UNUSED, "mtp.*")
STATE = "layers.{0}.linear_attn"
LAYER = {
    **{name: source for name, source in olmo2.LAYER.items() if not name.startswith("post_")},
    "attention_norm?": "layers.{}.attention_layer_norm",
    "ffn_norm?": ("layers.{}.feedforward_layer_norm", of_states),
    "post_attention_norm?": "layers.{}.post_attention_layernorm",
    "post_ffn_norm?": "layers.{}.post_feedforward_layernorm",
    "o_proj": f"layers.{{0}}.self_attn.o_proj={STATE}.o_proj",
    "qkvz_proj": f"{STATE}.q_proj {STATE}.k_proj {STATE}.v_proj {STATE}.g_proj",
    "rates_proj": f"{STATE}.b_proj {STATE}.a_proj",
    "convolution": (f"{STATE}.q_conv1d {STATE}.k_conv1d {STATE}.v_conv1d", flattened),
    "decay": f"{STATE}.A_log",
    "decay_bias": f"{STATE}.dt_bias",
    "value_norm": f"{STATE}.o_norm",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; every fourth layer attends, unless `layer_types` says otherwise."""
    config = {"rms_norm_eps": 1e-6, **given(config)}
    same, heads = olmo2.decoder(config), config["num_attention_heads"]
    key_heads = config.get("linear_num_key_heads", heads)
    key_size = config.get("linear_key_head_dim", 3 * same.hidden_size // (4 * key_heads))
    state = DeltaNet(
        key_heads=key_heads,
        value_heads=config.get("linear_num_value_heads", heads),
        key_size=key_size,
        value_size=config.get("linear_value_head_dim", 2 * key_size),
        width=config.get("linear_conv_kernel_dim", 4),
        epsilon=1e-5,
        most=2.0 if config.get("linear_allow_neg_eigval", True) else 1.0,
    )
    # published models have no rotary base, and no positions
    turns = given(config.get("rope_parameters") or config).get("rope_theta")
    attending = same.layers[0] if turns else replace(same.layers[0], rope=None)
    default = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(len(same.layers))]
    of_kind = {"full_attention": attending, "linear_attention": replace(attending, rope=None, recurrence=state)}
    return replace(same, layers=tuple(of_kind[kind] for kind in kinds_of(config, default, *of_kind)))
