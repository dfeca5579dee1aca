"""BioGPT: OPT's layers under other names, with a scaled embedding."""

from backends.decoder import Attention, Decoder
from model_store.checkpoint import Config
from model_store.families import activation
from model_store.weights import skip_two

PREFIX = "biogpt."
TIED = True
UNUSED = ()
MODEL = {
    "embedding": "embed_tokens",
    "position_embedding": ("embed_positions", skip_two),
    "norm": "layer_norm",
    "lm_head": "output_projection",
}
LAYER = {
    "attention_norm": "layers.{}.self_attn_layer_norm",
    "qkv_proj": "layers.{0}.self_attn.q_proj layers.{0}.self_attn.k_proj layers.{0}.self_attn.v_proj",
    "o_proj": "layers.{}.self_attn.out_proj",
    "ffn_norm": "layers.{}.final_layer_norm",
    "up_proj": "layers.{}.fc1",
    "down_proj": "layers.{}.fc2",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; its layer_norm_eps is not what the model was trained with, nor what transformers uses."""
    heads, size = config["num_attention_heads"], config["hidden_size"]
    return Decoder(
        layers=(Attention(heads, heads, size // heads, (size // heads) ** -0.5),) * config["num_hidden_layers"],
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        norm="layer",
        epsilon=1e-5,
        activation=activation(config.get("hidden_act", "gelu")),
        embedding_scale=size**0.5 if config.get("scale_embedding", True) else 1.0,
    )
