"""BLOOM: ALiBi instead of positions, and a norm on the embedding."""

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import group_heads
from model_store.families import field, mpt

PREFIX = "transformer."
TIED = True
UNUSED = ()
MODEL = {
    "embedding": "word_embeddings",
    "embedding_norm": "word_embeddings_layernorm",
    "norm": "ln_f",
    "lm_head": "lm_head",
}
LAYER = {
    "attention_norm": "h.{}.input_layernorm",
    "qkv_proj": ("h.{}.self_attention.query_key_value", group_heads),
    "o_proj": "h.{}.self_attention.dense",
    "ffn_norm": "h.{}.post_attention_layernorm",
    "up_proj": "h.{}.mlp.dense_h_to_4h",
    "down_proj": "h.{}.mlp.dense_4h_to_h",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; positions are relative, so the context length is what the model was trained with."""
    heads, size = field(config, "n_head", "num_attention_heads"), field(config, "n_embed", "hidden_size")
    head_dim = size // heads
    return Decoder(
        layers=(Layer(heads, heads, head_dim, head_dim**-0.5, alibi=mpt.slopes(heads, 8)),)
        * field(config, "n_layer", "num_hidden_layers"),
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=config.get("seq_length", 2048),
        norm="layer",
        epsilon=config.get("layer_norm_epsilon", 1e-5),
        activation="gelu_tanh",
    )
