"""EXAONE 3 is Llama with GPT-2's names."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import field, given, llama
from model_store.families.llama import TIED, UNUSED

PREFIX = "transformer."
MODEL = {"embedding": "wte", "norm": "ln_f", "lm_head": "lm_head"}
ATTENTION = "h.{0}.attn.attention"
LAYER = {
    "attention_norm": "h.{}.ln_1",
    "qkv_proj": f"{ATTENTION}.q_proj {ATTENTION}.k_proj {ATTENTION}.v_proj",
    "o_proj": f"{ATTENTION}.out_proj",
    "ffn_norm": "h.{}.ln_2",
    "gate_up_proj": "h.{0}.mlp.c_fc_0 h.{0}.mlp.c_fc_1",
    "down_proj": "h.{}.mlp.c_proj",
}
DEFAULTS: Config = {"vocab_size": 102_400, "max_position_embeddings": 4096, "rope_theta": 500_000.0}
"""What config.json may leave out."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = {**DEFAULTS, "layer_norm_epsilon": 1e-5, "activation_function": "silu", **given(config)}
    words = {
        "num_hidden_layers": field(config, "num_hidden_layers", "num_layers"),
        "rms_norm_eps": field(config, "rms_norm_eps", "layer_norm_epsilon"),
        "hidden_act": field(config, "hidden_act", "activation_function"),
    }
    return llama.decoder({**config, **words})
