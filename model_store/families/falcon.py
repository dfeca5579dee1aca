"""Falcon: attention and feed-forward side by side, under one norm or two; q, k and v grouped by key head."""

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import rope
from model_store.checkpoint.weights import group_heads
from model_store.errors import UnsupportedCheckpoint
from model_store.families import activation, field

PREFIX = "transformer."
TIED = True
UNUSED = (".rotary_emb.inv_freq", ".maybe_rotary.inv_freq")
MODEL = {"embedding": "word_embeddings", "norm": "ln_f", "lm_head": "lm_head"}

LAYER = {
    "attention_norm": "h.{0}.input_layernorm=h.{0}.ln_attn",
    "qkv_proj": ("h.{}.self_attention.query_key_value", group_heads),
    "o_proj": "h.{}.self_attention.dense",
    "ffn_norm?": "h.{0}.ln_mlp=h.{0}.post_attention_layernorm",
    "up_proj": "h.{}.mlp.dense_h_to_4h",
    "down_proj": "h.{}.mlp.dense_4h_to_h",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    if config.get("alibi"):
        raise UnsupportedCheckpoint("falcon with ALiBi (alibi in config.json) is not supported")
    heads, size = field(config, "num_attention_heads", "n_head"), field(config, "hidden_size", "n_embed")
    newer, head_dim = config.get("new_decoder_architecture"), size // heads
    own = config.get("num_kv_heads") or config.get("n_head_kv") or heads
    kv_heads = own if newer or not config.get("multi_query", True) else 1
    return Decoder(
        layers=(Layer(heads, kv_heads, head_dim, head_dim**-0.5, rope(config, head_dim)),)
        * field(config, "num_hidden_layers", "n_layer"),
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=config.get("max_position_embeddings", 2048),
        norm="layer",
        epsilon=config.get("layer_norm_epsilon", 1e-5),
        activation=activation(config.get("activation", "gelu")),
        parallel=bool(newer or config.get("parallel_attn", True)),
    )
