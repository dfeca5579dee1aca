"""Qwen3.5: three of four layers are gated delta nets, and the others have gated attention."""

from dataclasses import replace

from backends.decoder import Decoder, DeltaNet
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import flattened, gates_alone, plus_one, spread_rotary, without_gates
from model_store.families import kinds_of, llama, qwen2_vl
from model_store.families.llama import TIED

PREFIX = "model.language_model.", "model."
UNUSED = ("visual.*", "model.visual.*", "mtp.*", ".rotary_emb.inv_freq")
MODEL = {**llama.MODEL, "norm": ("norm", plus_one)}
STATE = "layers.{0}.linear_attn"
LAYER = {
    **llama.LAYER,
    "attention_norm": ("layers.{}.input_layernorm", plus_one),
    "ffn_norm": ("layers.{}.post_attention_layernorm", plus_one),
    "qkv_proj": (llama.LAYER["qkv_proj"], without_gates, spread_rotary),
    "q_norm": ("layers.{}.self_attn.q_norm", plus_one, spread_rotary),
    "k_norm": ("layers.{}.self_attn.k_norm", plus_one, spread_rotary),
    "attention_gate": ("layers.{}.self_attn.q_proj", gates_alone),
    "o_proj": f"layers.{{0}}.self_attn.o_proj={STATE}.out_proj",
    "qkvz_proj": f"{STATE}.in_proj_qkv {STATE}.in_proj_z",
    "rates_proj": f"{STATE}.in_proj_b {STATE}.in_proj_a",
    "convolution": (f"{STATE}.conv1d", flattened),
    "decay": f"{STATE}.A_log",
    "decay_bias": f"{STATE}.dt_bias",
    "value_norm": f"{STATE}.norm",
}


def decoder(config: Config) -> Decoder:
    """Read config.json, or its `text_config`; every fourth layer attends, unless `layer_types` says which do."""
    config = {"head_dim": 256, **qwen2_vl.text_of(config)}
    same = llama.decoder(config, partial=0.25)
    every = config.get("full_attention_interval") or 4
    default = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(len(same.layers))]
    state = DeltaNet(
        key_heads=config.get("linear_num_key_heads", 16),
        value_heads=config.get("linear_num_value_heads", 32),
        key_size=config.get("linear_key_head_dim", 128),
        value_size=config.get("linear_value_head_dim", 128),
        width=config.get("linear_conv_kernel_dim", 4),
    )
    of_kind = {
        "full_attention": same.layers[0],
        "linear_attention": replace(same.layers[0], rope=None, recurrence=state),
    }
    return replace(same, layers=tuple(of_kind[kind] for kind in kinds_of(config, default, *of_kind)))
