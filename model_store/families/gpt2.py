"""GPT-2: learned positions, and matrices stored (in, out)."""

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import transpose
from model_store.families import activation, field

PREFIX = "transformer."
TIED = True
UNUSED = (".attn.bias", ".attn.masked_bias")
MODEL = {"embedding": "wte", "position_embedding": "wpe", "norm": "ln_f", "lm_head": "lm_head"}
LAYER = {
    "attention_norm": "h.{}.ln_1",
    "qkv_proj": ("h.{}.attn.c_attn", transpose),
    "o_proj": ("h.{}.attn.c_proj", transpose),
    "ffn_norm": "h.{}.ln_2",
    "up_proj": ("h.{}.mlp.c_fc", transpose),
    "down_proj": ("h.{}.mlp.c_proj", transpose),
}
UNREAD: Config = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
"""Fields that only GPT-2 reads, with other models' values."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    heads, size = field(config, "n_head", "num_attention_heads"), field(config, "n_embd", "hidden_size")
    scale = (size // heads) ** -0.5 if config.get("scale_attn_weights", True) else 1.0
    falls = bool(config.get("scale_attn_by_inverse_layer_idx"))
    scales = (scale / (i + 1) if falls else scale for i in range(field(config, "n_layer", "num_hidden_layers")))
    return Decoder(
        layers=tuple(Layer(heads, heads, size // heads, each) for each in scales),
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=field(config, "n_positions", "max_position_embeddings"),
        norm="layer",
        epsilon=config.get("layer_norm_epsilon", 1e-5),
        activation=activation(config.get("activation_function", "gelu_new")),
    )
