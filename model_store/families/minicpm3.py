"""MiniCPM3: DeepSeek's latent attention with rotary halves, no experts, and Granite's factors."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import deepseek_v2, given, granite, llama
from model_store.families.llama import MODEL, PREFIX, UNUSED

TIED = True
LAYER = {
    **{name: source for name, source in llama.LAYER.items() if name != "qkv_proj"},
    **deepseek_v2.LATENT,
    "k_turning_proj": (deepseek_v2.SHARED, deepseek_v2.to_turning),
    "q_proj": ("layers.{0}.self_attn.q_proj=layers.{0}.self_attn.q_b_proj", deepseek_v2.spread_turning),
}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    depth, base = config.get("scale_depth", 1.4), config.get("dim_model_base", 256)
    factors = {
        "embedding_multiplier": config.get("scale_emb") or 12,
        "residual_multiplier": 1.0 if depth is None else depth / layers**0.5,
        "logits_scaling": hidden / (base or hidden),
    }
    sizes = {"kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "rms_norm_eps": 1e-5}
    config = {**sizes, **given(config)}
    config["v_head_dim"] = config.get("v_head_dim") or hidden // config["num_attention_heads"]
    return deepseek_v2.attend(config, granite.decoder({**deepseek_v2.without_latents(config), **factors}))
