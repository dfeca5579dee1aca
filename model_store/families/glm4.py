"""GLM 4 (of 2025) is GLM with norms before and after each branch."""

from model_store.families import glm
from model_store.families.glm import MODEL, PREFIX, TIED, UNUSED, decoder

LAYER = {
    **glm.LAYER,
    "post_attention_norm": "layers.{}.post_self_attn_layernorm",
    "post_ffn_norm": "layers.{}.post_mlp_layernorm",
}
