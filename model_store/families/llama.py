"""Llama, and everything shaped like it: RMS norms, rotary positions, gated feed-forward."""

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import rope
from model_store.families import activation

PREFIX = "model."
TIED = False
UNUSED = (".rotary_emb.inv_freq",)
MODEL = {"embedding": "embed_tokens", "norm": "norm", "lm_head": "lm_head"}
LAYER = {
    "attention_norm": "layers.{}.input_layernorm",
    "qkv_proj": "layers.{0}.self_attn.q_proj layers.{0}.self_attn.k_proj layers.{0}.self_attn.v_proj",
    "o_proj": "layers.{}.self_attn.o_proj",
    "ffn_norm": "layers.{}.post_attention_layernorm",
    "gate_up_proj": "layers.{0}.mlp.gate_proj layers.{0}.mlp.up_proj",
    "down_proj": "layers.{}.mlp.down_proj",
}


def decoder(config: Config, *, partial: float | None = None) -> Decoder:
    """Read config.json; `partial` is the default of `partial_rotary_factor`, None for all of a head."""
    share = None if partial is None else config.get("partial_rotary_factor", partial)
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    layer = Layer(
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=head_dim,
        scale=head_dim**-0.5,
        rope=rope(config, head_dim, partial=share),
    )
    return Decoder(
        layers=(layer,) * config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        norm="rms",
        epsilon=config.get("rms_norm_eps", 1e-6),
        activation=activation(config.get("hidden_act", "silu")),
    )
