"""OPT: GPT-2 with ReLU, ordinary matrices, and a position table whose first two rows are not used."""

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import skip_two
from model_store.families import activation

PREFIX = "model."
TIED = True
UNUSED = ("decoder.version",)
MODEL = {
    "embedding": "decoder.embed_tokens",
    "project_in?": "decoder.project_in",
    "position_embedding": ("decoder.embed_positions", skip_two),
    "norm": "decoder.final_layer_norm",
    "project_out?": "decoder.project_out",
    "lm_head": "lm_head",
}
ATTENTION = "decoder.layers.{0}.self_attn."
LAYER = {
    "attention_norm": "decoder.layers.{}.self_attn_layer_norm",
    "qkv_proj": f"{ATTENTION}q_proj {ATTENTION}k_proj {ATTENTION}v_proj",
    "o_proj": "decoder.layers.{}.self_attn.out_proj",
    "ffn_norm": "decoder.layers.{}.final_layer_norm",
    "up_proj": "decoder.layers.{}.fc1",
    "down_proj": "decoder.layers.{}.fc2",
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    heads, size = config["num_attention_heads"], config["hidden_size"]
    return Decoder(
        layers=(Layer(heads, heads, size // heads, (size // heads) ** -0.5),) * config["num_hidden_layers"],
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        norm="layer",
        epsilon=1e-5,
        activation=activation(config.get("activation_function", "relu")),
    )
