"""Gemma 4: Gemma 3 with other heads in full layers, and last layers without keys of their own.

Values are normalised too, scores are not scaled, and the small models have an embedding for each layer. In the one of
26B each layer has experts beside a feed-forward.
"""

from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Experts, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, rope
from model_store.errors import UnsupportedCheckpoint, cut
from model_store.families import activation, alternate, gemma, given, llama, windows
from model_store.families.gemma import PREFIX, TIED


def halve_power(values: np.ndarray, layer: Layer) -> np.ndarray:
    """A norm times the root of one half, for the sum of two inputs."""
    return values * np.float32(0.5**0.5)


def by_root(values: np.ndarray, layer: Layer) -> np.ndarray:
    """A norm of all elements, divided by the root of their number."""
    return values * np.float32(len(values) ** -0.5)


MODEL = {
    **llama.MODEL,
    "per_layer_embedding": "embed_tokens_per_layer",
    "per_layer_proj": "per_layer_model_projection",
    "per_layer_norm": ("per_layer_projection_norm", halve_power),
}
LAYER = {
    **llama.LAYER,
    "q_norm": "layers.{}.self_attn.q_norm",
    "k_norm": "layers.{}.self_attn.k_norm",
    "v_norm": np.ones,
    "post_attention_norm": "layers.{}.post_attention_layernorm",
    "ffn_norm": "layers.{}.pre_feedforward_layernorm",
    "post_ffn_norm": "layers.{}.post_feedforward_layernorm",
    "per_layer_gate": "layers.{}.per_layer_input_gate",
    "per_layer_out": "layers.{}.per_layer_projection",
    "post_per_layer_norm": "layers.{}.post_per_layer_input_norm",
    "scalar": "layers.{}.layer_scalar",
    "router": "layers.{}.router.proj",
    "router_norm": ("layers.{}.router.scale", by_root),
    "experts_norm": "layers.{}.pre_feedforward_layernorm_2",
    "experts.gate_up_proj": "layers.{0}.experts.gate_up_proj[{1}]",
    "experts.down_proj": "layers.{0}.experts.down_proj[{1}]",
    "expert_scale": "layers.{}.router.per_expert_scale",
    "post_experts_norm": "layers.{}.post_feedforward_layernorm_2",
    "post_shared_norm": "layers.{}.post_feedforward_layernorm_1",
}
UNUSED = (*llama.UNUSED, "layers.{}.self_attn.k_*", "layers.{}.self_attn.v_*")
DEFAULTS: Config = {
    "vocab_size": 262_144,
    "hidden_size": 2304,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "rope_parameters": {
        "sliding_attention": {"rope_theta": 10_000.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
    },
}
"""What config.json may leave out."""


def decoder(config: Config) -> Decoder:
    """Read config.json; the last and every sixth layer have no window, unless `layer_types` says otherwise."""
    size = config.get("hidden_size_per_layer_input", 256) or 0
    config = {**DEFAULTS, **given(config)}
    if config.get("use_bidirectional_attention") == "all":
        says = "attention to what comes later (use_bidirectional_attention in config.json)"
        raise UnsupportedCheckpoint(f"gemma4 with {says} is not supported")
    same = gemma.decoder({**config, **UNSCALED, "hidden_act": "gelu"})
    return replace(
        same,
        layers=share(attentions(config, same), config.get("num_kv_shared_layers", 0)),
        activation=activation(config.get("hidden_activation", "gelu_pytorch_tanh")),
        logit_softcap=config.get("final_logit_softcapping", 0.0),
        experts=experts(config) if config.get("enable_moe_block") else None,
        per_layer_size=size,
        per_layer_scale=(size / 2) ** 0.5 if size else 1.0,
    )


def experts(config: Config) -> Experts:
    """The experts, in all layers beside a shared feed-forward."""
    return Experts(
        layers=tuple(range(config["num_hidden_layers"])),
        count=config["num_experts"],
        chosen=config["top_k_experts"],
        size=config["moe_intermediate_size"],
        shared=True,
    )


def attentions(config: Config, same: Decoder) -> list[Layer]:
    """The layers, as if all had keys and values of their own."""
    each = [*windows(config, alternate(config, len(same.layers), 6), config.get("sliding_window", 512))[:-1], 0]
    turns = config["rope_parameters"]
    found = []
    for i, window in enumerate(each):
        head_dim, kv_heads = heads_of(config, i, window)
        turned = turns["sliding_attention" if window else "full_attention"]
        layer = Layer(
            heads=config["num_attention_heads"],
            kv_heads=kv_heads,
            head_dim=head_dim,
            scale=1.0,
            rope=rope({**config, "rope_parameters": turned}, head_dim),
            window=window,
            k_eq_v=not window and config.get("attention_k_eq_v", False),
        )
        found.append(layer)
    return found


def heads_of(config: Config, layer: int, window: int) -> tuple[int, int]:
    """A layer's head size and key-value heads; newer files list these for each layer."""
    own: Config = {}
    if "per_layer_config" in config:
        own = config["per_layer_config"].get(str(layer), {})
    elif not window:
        own = {"head_dim": config.get("global_head_dim", 512)}
        if config.get("attention_k_eq_v") and "num_global_key_value_heads" in config:
            own |= {"num_key_value_heads": config["num_global_key_value_heads"]}
    names = "head_dim", "num_key_value_heads"
    if unknown := sorted({*own} - {*names}):
        raise UnsupportedCheckpoint(
            f"layers with a {cut(unknown[0])} of their own (per_layer_config) are not supported"
        )
    head_dim, kv_heads = ({**config, **given(own)}[name] for name in names)
    return head_dim, kv_heads


def share(layers: list[Layer], count: int) -> tuple[Layer, ...]:
    """Let the last `count` layers attend to the keys and values of the last earlier layer of their kind."""
    own = layers[: len(layers) - count]
    makers = {bool(layer.window): i for i, layer in enumerate(own)}
    kinds = [bool(layer.window) for layer in layers[len(own) :]]
    if not {*kinds} <= makers.keys():
        raise ValueError(f"of the layers before the last {count} (num_kv_shared_layers) none has such keys as these")
    return (*own, *(replace(own[makers[kind]], kv_layer=makers[kind]) for kind in kinds))
