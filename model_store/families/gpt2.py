"""GPT-2: learned positions, and matrices stored (in, out)."""

from backends.decoder import Attention, Decoder
from model_store.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint
from model_store.families import activation
from model_store.weights import transpose

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


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    if config.get("scale_attn_by_inverse_layer_idx") or config.get("add_cross_attention"):
        raise UnsupportedCheckpoint("gpt2 with scale_attn_by_inverse_layer_idx or cross-attention is not supported")
    heads, size = config["n_head"], config["n_embd"]
    scale = (size // heads) ** -0.5 if config.get("scale_attn_weights", True) else 1.0
    return Decoder(
        layers=(Attention(heads, heads, size // heads, scale),) * config["n_layer"],
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=config["n_positions"],
        norm="layer",
        epsilon=config.get("layer_norm_epsilon", 1e-5),
        activation=activation(config.get("activation_function", "gelu_new")),
    )
