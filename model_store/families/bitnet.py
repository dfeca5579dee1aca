"""BitNet b1.58 is Llama with norms before the last matrix of each branch, and a squared ReLU."""

from model_store.families import llama, with_defaults
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

LAYER = {
    **llama.LAYER,
    "attention_sub_norm": "layers.{}.self_attn.attn_sub_norm",
    "ffn_sub_norm": "layers.{}.mlp.ffn_sub_norm",
}
decoder = with_defaults(llama.decoder, {"hidden_act": "relu2", "rms_norm_eps": 1e-5, "rope_theta": 500_000.0})
