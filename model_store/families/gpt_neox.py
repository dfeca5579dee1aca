"""GPT-NeoX and Pythia: rotary positions on part of each head, attention and feed-forward side by side."""

from backends.decoder import Attention, Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import rope
from model_store.checkpoint.weights import group_heads, spread_rotary
from model_store.families import activation

PREFIX = "gpt_neox."
TIED = False
UNUSED = (".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq")
MODEL = {"embedding": "embed_in", "norm": "final_layer_norm", "lm_head": "embed_out=lm_head"}
LAYER = {
    "attention_norm": "layers.{}.input_layernorm",
    "qkv_proj": ("layers.{}.attention.query_key_value", group_heads, spread_rotary),
    "o_proj": "layers.{}.attention.dense",
    "ffn_norm": "layers.{}.post_attention_layernorm",
    "up_proj": "layers.{}.mlp.dense_h_to_4h",
    "down_proj": "layers.{}.mlp.dense_4h_to_h",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    heads, size = config["num_attention_heads"], config["hidden_size"]
    head_dim = size // heads
    spelled = {**config, "rope_theta": config.get("rotary_emb_base")}
    turned = rope(spelled, head_dim, partial=config.get("rotary_pct", 0.25))
    attention = Attention(heads, heads, head_dim, head_dim**-0.5, turned)
    return Decoder(
        layers=(attention,) * config["num_hidden_layers"],
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        norm="layer",
        epsilon=config.get("layer_norm_eps", 1e-5),
        activation=activation(config.get("hidden_act", "gelu")),
        parallel=config.get("use_parallel_residual", True),
    )
