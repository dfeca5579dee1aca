"""GPT-Neo: GPT-2 with ordinary matrices, unscaled attention, and a window on some layers."""

from dataclasses import replace

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.errors import shown
from model_store.families import activation, field
from model_store.families.gpt2 import MODEL, PREFIX, TIED

UNUSED = (".attn.attention.bias", ".attn.attention.masked_bias")
LAYER = {
    "attention_norm": "h.{}.ln_1",
    "qkv_proj": "h.{0}.attn.attention.q_proj h.{0}.attn.attention.k_proj h.{0}.attn.attention.v_proj",
    "o_proj": "h.{}.attn.attention.out_proj",
    "ffn_norm": "h.{}.ln_2",
    "up_proj": "h.{}.mlp.c_fc",
    "down_proj": "h.{}.mlp.c_proj",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; `attention_types` is a list of (kinds, how often they repeat)."""
    heads, size = field(config, "num_heads", "num_attention_heads"), config["hidden_size"]
    layer = Layer(heads, heads, size // heads, scale=1.0)
    layers = field(config, "num_layers", "num_hidden_layers")
    types = config["attention_types"]
    kinds = [kind for pattern, count in types for kind in pattern * min(count, layers + 1)]
    if len(kinds) != layers or {*kinds} - {"global", "local"}:
        raise ValueError(f"attention_types should say global or local for each layer, and says {shown(types)}")
    if config.get("attention_layers", kinds) != kinds:
        raise ValueError("attention_types and attention_layers contradict each other")
    window = config.get("window_size", 256)
    return Decoder(
        layers=tuple(replace(layer, window=window if kind == "local" else 0) for kind in kinds),
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        norm="layer",
        epsilon=config.get("layer_norm_epsilon", 1e-5),
        activation=activation(config.get("activation_function", "gelu_new")),
    )
