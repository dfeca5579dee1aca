"""What llama.cpp's converter makes of the golden checkpoints, as GGUF files."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from model_store.checkpoint.checkpoint import Checkpoint
from support import gemma3n_files, gemma4_files
from support.gguf_experts import choice_of_experts, count_experts, stacked
from support.gguf_files import floats, gguf, mxfp4, q8_0, vocabulary
from support.gguf_states import blocks_of, channels_of, states_of, with_states

ARCHITECTURES = {
    "afmoe": "afmoe", "bitnet": "bitnet-b1.58",
    "arcee": "arcee", "bloom": "bloom", "cohere": "command-r", "cohere2": "cohere2", "ernie4_5": "ernie4_5",
    "dots1": "dots1", "hunyuan_v1_moe": "hunyuan-moe", "minimax_m2": "minimax-m2", "jamba": "jamba",
    "exaone": "exaone", "exaone_moe": "exaone-moe", "exaone4": "exaone4", "falcon": "falcon",
    "falcon_h1": "falcon-h1", "gemma": "gemma", "gemma2": "gemma2",
    "gemma3_text": "gemma3", "gemma3n_text": "gemma3n", "gemma4_text": "gemma4",
    "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2", "gpt_oss": "gpt-oss", "granitemoeshared": "granitemoe",
    "phimoe": "phimoe", "glm4_moe": "glm4moe", "glm4_moe_lite": "deepseek2", "youtu": "deepseek2",
    "ernie4_5_moe": "ernie4_5-moe", "minicpm3": "minicpm3",
    "granitemoe": "granitemoe", "mixtral": "llama", "olmoe": "olmoe", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe",
    "glm4": "glm4", "gpt2": "gpt2", "gpt_bigcode": "starcoder", "gpt_neox": "gptneox", "granite": "granite",
    "apertus": "apertus", "hunyuan_v1_dense": "hunyuan-dense", "ministral3": "mistral3", "mpt": "mpt", "olmo": "olmo",
    "olmo2": "olmo2", "olmo3": "olmo2", "qwen2_vl": "qwen2vl", "qwen3_vl": "qwen3vl",
    "lfm2": "lfm2", "lfm2_moe": "lfm2moe", "qwen3_5": "qwen35", "qwen3_5_text": "qwen35",
    "qwen3_5_moe_text": "qwen35moe", "granitemoehybrid": "granitehybrid", "nemotron_h": "nemotron_h",
    "llama": "llama", "nemotron": "nemotron", "phi": "phi2", "phi3": "phi3", "qwen2": "qwen2", "qwen3": "qwen3",
    "seed_oss": "seed_oss", "stablelm": "stablelm", "starcoder2": "starcoder2",
}  # fmt: skip
NAMES = {
    "embed_tokens": "token_embd", "wte": "token_embd", "word_embeddings": "token_embd", "embed_in": "token_embd",
    "word_embeddings_layernorm": "token_embd_norm", "wpe": "position_embd",
    "norm": "output_norm", "ln_f": "output_norm", "final_layernorm": "output_norm", "final_layer_norm": "output_norm",
    "lm_head": "output", "embed_out": "output",
    "input_layernorm": "attn_norm", "ln_1": "attn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.attn_sub_norm": "attn_sub_norm", "mlp.ffn_sub_norm": "ffn_sub_norm",
    "self_attn.qkv_proj": "attn_qkv", "attn.c_attn": "attn_qkv", "attention.query_key_value": "attn_qkv",
    "self_attention.query_key_value": "attn_qkv",
    "self_attn.o_proj": "attn_output", "self_attn.dense": "attn_output", "attn.c_proj": "attn_output",
    "attention.dense": "attn_output", "self_attention.dense": "attn_output",
    "post_attention_layernorm": "ffn_norm", "ln_2": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.c_fc": "ffn_up",
    "mlp.fc1": "ffn_up", "mlp.dense_h_to_4h": "ffn_up",
    "norm_f": "output_norm", "norm_1": "attn_norm", "norm_2": "ffn_norm", "attn.Wqkv": "attn_qkv",
    "attn.out_proj": "attn_output", "ffn.up_proj": "ffn_up", "ffn.down_proj": "ffn_down",
    "pre_ff_layernorm": "ffn_norm", "attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm",
    "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm",
    **dict.fromkeys(("mlp.gate", "block_sparse_moe.gate", "block_sparse_moe.router.layer"), "ffn_gate_inp"),
    "mlp.router.gate": "ffn_gate_inp", "self_attn.gate_proj": "attn_gate",
    "mlp.router": "ffn_gate_inp", "mlp.gate.wg": "ffn_gate_inp",
    **{f"mlp.shared_mlp.{kind}_proj": f"ffn_{kind}_shexp" for kind in ("gate", "up", "down")},
    "self_attn.sinks": "attn_sinks",
    **{f"mlp.experts.{kind}_proj": f"ffn_{kind}_exps" for kind in ("gate", "up", "down")},
    **{f"mlp.shared_expert.{kind}_proj": f"ffn_{kind}_shexp" for kind in ("gate", "up", "down")},
    "shared_mlp.output_linear": "ffn_down_shexp",
    **{f"mlp.shared_experts.{kind}_proj": f"ffn_{kind}_shexp" for kind in ("gate", "up", "down")},
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "mlp.gate.e_score_correction": "exp_probs_b",
    **{f"{one}.e_score_correction": "exp_probs_b" for one in ("mlp", "mlp.moe_statics", "block_sparse_moe")},
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "eh_proj": "nextn.eh_proj",
    "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "embedding_norm": "token_embd_norm",
    "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm", "self_attn.out_proj": "attn_output",
    **{f"conv.{one}": f"shortconv.{one}" for one in ("conv", "in_proj", "out_proj")},
    **{f"feed_forward.{kind}_proj": f"ffn_{kind}" for kind in ("gate", "up", "down")},
    **{f"feed_forward.experts.{kind}_proj": f"ffn_{kind}_exps" for kind in ("gate", "up", "down")},
    "feed_forward.gate": "ffn_gate_inp",
    **{f"linear_attn.{one}": f"ssm_{called}" for one, called in (
        ("in_proj_a", "alpha"), ("in_proj_b", "beta"), ("A_log", "a"), ("dt_proj", "dt"), ("conv1d", "conv1d"),
        ("norm", "norm"), ("out_proj", "out"))},
    **{f"mamba.{one}": f"ssm_{called}" for one, called in (
        ("in_proj", "in"), ("A_log", "a"), ("D", "d"), ("dt_proj", "dt"), ("conv1d", "conv1d"), ("norm", "norm"),
        ("out_proj", "out"), ("x_proj", "x"), ("dt_layernorm", "dt_norm"), ("b_layernorm", "b_norm"),
        ("c_layernorm", "c_norm"))},
    "feed_forward.router": "ffn_gate_inp",
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "mlp.down_proj": "ffn_down", "mlp.c_proj": "ffn_down",
    "mlp.c_fc_0": "ffn_gate", "mlp.c_fc_1": "ffn_up", "attn.attention.out_proj": "attn_output",
    **{f"attn.attention.{one}_proj": f"attn_{one}" for one in "qkv"},
    "mlp.fc2": "ffn_down", "mlp.dense_4h_to_h": "ffn_down",
}  # fmt: skip
BEHIND = {
    "post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
RENAMED = {
    "afmoe": {
        "post_attention_layernorm": "post_attention_norm",
        "pre_mlp_layernorm": "ffn_norm",
        "post_mlp_layernorm": "post_ffw_norm",
    },
    "exaone4": BEHIND,
    "olmo2": BEHIND,
    "olmo3": BEHIND,
    "seed_oss": BEHIND,
    "gpt_oss": BEHIND,
    "glm4_moe": BEHIND,
    "qwen3_5": BEHIND,
    "qwen3_5_text": BEHIND,
    "qwen3_5_moe_text": BEHIND,
    "glm4": {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"},
}
PLAIN = ".ssm_a.weight", ".ssm_d.weight"
"""What has no `.weight` at the end of its name."""
NEIGHBOURS = (
    "arcee",
    "granite",
    "llama",
    "ministral3",
    "olmo",
    "granitemoe",
    "granitemoeshared",
    "mixtral",
    "granitemoehybrid",
    "nemotron_h",
)
"""Types whose queries and keys the converter puts in another order."""
GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def converted(folder: Path, *, rows: int = 96) -> bytes:
    """The GGUF file that llama.cpp's converter makes of a golden checkpoint, in float32, with a plain vocabulary."""
    config: dict[str, Any] = {**json.loads((folder / "config.json").read_text())}  # Any: config.json's
    config = {**config.get("text_config", {}), **config}
    checkpoint = Checkpoint(folder)
    tensors = {
        name.replace("language_model.", ""): np.asarray(one.read(), np.float32)
        for name, one in checkpoint.tensors.items()
        if "visual." not in name
    }
    learned = {name: values for name, values in tensors.items() if ".act_fn." in name}
    kept = {name: values for name, values in tensors.items() if name not in learned}
    keys = metadata_of(config) | factors_of_activations(learned) | vocabulary(rows)
    return gguf(keys, floats(tensors_of(config, kept)))


STACKS = {
    "layer.0.SelfAttention.relative_attention_bias": "attn_rel_b", "layer.0.layer_norm": "attn_norm",
    **{f"layer.0.SelfAttention.{one}": f"attn_{one}" for one in "qkvo"},
    **{f"layer.1.EncDecAttention.{one}": f"cross_attn_{one}" for one in "qkvo"},
    "layer.1.EncDecAttention.relative_attention_bias": "cross_attn_rel_b",
    **{f"layer.{one}.DenseReluDense.wi_0": "ffn_gate" for one in "12"},
    **{f"layer.{one}.DenseReluDense.{kind}": "ffn_up" for one in "12" for kind in ("wi", "wi_1")},
    **{f"layer.{one}.DenseReluDense.wo": "ffn_down" for one in "12"},
}  # fmt: skip
"""Names in a block of T5, but for those norms whose meaning depends on the stack."""
NORMS = {("enc", "layer.1"): "ffn_norm", ("dec", "layer.1"): "cross_attn_norm", ("dec", "layer.2"): "ffn_norm"}


def converted_t5(folder: Path, *, rows: int = 96) -> bytes:
    """The GGUF file that llama.cpp's converter makes of a golden T5, with a plain vocabulary."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())  # Any: config.json's
    sizes = {
        "context_length": config.get("n_positions", 512), "embedding_length": config["d_model"],
        "feed_forward_length": config["d_ff"], "block_count": config["num_layers"],
        "decoder_block_count": config.get("num_decoder_layers") or config["num_layers"],
        "attention.head_count": config["num_heads"], "attention.key_length": config["d_kv"],
        "attention.value_length": config["d_kv"],
        "attention.layer_norm_epsilon": config.get("layer_norm_epsilon", 1e-6),
        "attention.relative_buckets_count": config["relative_attention_num_buckets"],
        "attention.layer_norm_rms_epsilon": config.get("layer_norm_epsilon", 1e-6),
        "decoder_start_token_id": config.get("decoder_start_token_id", 0),
    }  # fmt: skip
    tensors: dict[str, np.ndarray] = {}
    for name, one in Checkpoint(folder).tensors.items():
        match name.removesuffix(".weight").split(".", 3):
            case ["shared"] | ["encoder" | "decoder", "embed_tokens"]:
                called = "token_embd"
            case ["lm_head"]:
                called = "output"
            case [stack, "final_layer_norm"]:
                called = f"{stack[:3]}.output_norm"
            case [stack, "block", number, inner]:
                norm = NORMS.get((stack[:3], inner.removesuffix(".layer_norm")), "")
                called = f"{stack[:3]}.blk.{number}.{STACKS.get(inner) or norm}"
        tensors[f"{called}.weight"] = np.asarray(one.read(), np.float32)
    metadata = {"general.architecture": "t5"} | {f"t5.{key}": found for key, found in sizes.items()}
    return gguf(metadata | vocabulary(rows), floats(tensors))


def factors_of_activations(learned: dict[str, np.ndarray]) -> dict[str, object]:
    """Apertus's numbers of each layer, as keys."""
    found: dict[str, list[float]] = {}
    for name in sorted(learned):
        found.setdefault("xielu." + name.rpartition(".")[2], []).append(float(learned[name].ravel()[0]))
    return dict(found)


def rounded(folder: Path) -> bytes:
    """The GGUF file of a golden checkpoint whose matrices are rounded to Q8_0, but for routers; experts stay mxfp4."""
    config: dict[str, Any] = {**json.loads((folder / "config.json").read_text())}  # Any: config.json's
    read = {name: np.asarray(one.read(), np.float32) for name, one in Checkpoint(folder).tensors.items()}
    tensors = tensors_of(config, read)
    matrices = {name for name, values in tensors.items() if values.ndim > 1 and "gate_inp" not in name}
    experts = {name for name in matrices if "quantization_config" in config and "_exps" in name}
    matrices = {name for name in matrices if not name.endswith(".bias")}
    blocks = {name: (mxfp4 if name in experts else q8_0)(tensors[name]) for name in matrices}
    return gguf(metadata_of(config) | vocabulary(96), {**floats(tensors), **blocks})


def metadata_of(config: dict[str, Any]) -> dict[str, object]:
    """The keys that follow from config.json."""
    heads = config.get("num_attention_heads") or config.get("n_heads") or config["n_head"]
    size = config.get("hidden_size") or config.get("d_model") or config["n_embd"]
    spellings = "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps", "rms_norm_eps"
    epsilon = next((config[key] for key in spellings if key in config), 1e-5)
    if config["model_type"] == "olmo":
        epsilon = 1e-5
    head_dim = config.get("head_dim") or size // heads
    scaling = config.get("rope_parameters") or {}
    near = scaling.get("sliding_attention", {})
    scaling = scaling.get("full_attention", scaling)
    keys: dict[str, object] = {
        "context_length": config.get("max_position_embeddings") or config.get("n_positions") or 2048,
        "embedding_length": size,
        "block_count": (config.get("num_hidden_layers") or config.get("n_layers") or config.get("n_layer") or 0)
        + (config.get("num_nextn_predict_layers") or 0),
        "feed_forward_length": config.get("intermediate_size") or 4 * size,
        "expert_count": count_experts(config),
        "expert_used_count": config.get("num_experts_per_tok") if count_experts(config) else None,
        "expert_feed_forward_length": config.get("moe_intermediate_size"),
        "expert_shared_feed_forward_length": config.get("shared_expert_intermediate_size")
        or config.get("shared_intermediate_size"),
        "attention.head_count": heads,
        "attention.head_count_kv": 1 if config.get("multi_query") else config.get("num_key_value_heads") or heads,
        "attention.layer_norm_epsilon": epsilon,
        "attention.layer_norm_rms_epsilon": epsilon,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "rope.freq_base": stretched_base(scaling, head_dim),
        "rope.freq_base_swa": near.get("rope_theta"),
        "rope.dimension_count": int(head_dim * scaling.get("partial_rotary_factor", 1)),
        "rope.scaling.type": scaling["rope_type"] if scaling.get("rope_type") in ("linear", "yarn") else None,
        "rope.scaling.factor": scaling["factor"] if scaling.get("rope_type") in ("linear", "yarn") else None,
        "rope.scaling.attn_factor": amplitude(config) if scaling.get("rope_type") == "longrope" else None,
        "rope.scaling.original_context_length": scaling.get("original_max_position_embeddings")
        or config.get("original_max_position_embeddings"),
        "attention.sliding_window": config.get("sliding_window") if "qwen2" not in config["model_type"] else None,
        "attention.sliding_window_pattern": pattern_of(config),
        "attention.clamp_kqv": config.get("clip_qkv"),
        "attention.max_alibi_bias": 8.0 if config["model_type"] == "mpt" else None,
        "attention.temperature_scale": scaling.get("llama_4_scaling_beta"),
        "rope.scaling.yarn_log_multiplier": scaling.get("mscale_all_dim"),
        "rope.dimension_sections": [2, 3, 3, 0] if config["model_type"] in ("qwen2_vl", "qwen3_vl") else None,
        "attn_logit_softcapping": config.get("attn_logit_softcapping"),
        "final_logit_softcapping": config.get("final_logit_softcapping"),
        "attention.scale": config.get("attention_multiplier"),
        "embedding_scale": config.get("embedding_multiplier"),
        "logit_scale": config.get("logits_scaling") or config.get("logit_scale"),
        "residual_scale": config.get("residual_multiplier"),
        "tensor_data_layout": "jploski" if config["model_type"] == "falcon" else None,
        "use_parallel_residual": config.get("use_parallel_residual"),
    }
    if config["model_type"].startswith("lfm2"):
        kinds = config["layer_types"]
        keys["attention.head_count_kv"] = [config["num_key_value_heads"] * (kind != "conv") for kind in kinds]
        keys["shortconv.l_cache"] = config["conv_L_cache"]
        if config["model_type"] == "lfm2":
            multiple, size = config["block_multiple_of"], int(2 * config["intermediate_size"] / 3)
            keys["feed_forward_length"] = -(-size // multiple) * multiple
        else:
            keys |= {"leading_dense_block_count": config["num_dense_layers"], "expert_gating_func": 2}
    if config["model_type"] == "afmoe":
        keys |= {"leading_dense_block_count": config["num_dense_layers"], "expert_weights_scale": config["route_scale"]}
        keys |= {
            "expert_gating_func": 2,
            "expert_weights_norm": True,
            "expert_shared_count": config["num_shared_experts"],
        }
    if config["model_type"].startswith("qwen3_5"):
        keys |= {
            "ssm.conv_kernel": config["linear_conv_kernel_dim"], "ssm.state_size": config["linear_key_head_dim"],
            "ssm.group_count": config["linear_num_key_heads"], "ssm.time_step_rank": config["linear_num_value_heads"],
            "ssm.inner_size": config["linear_value_head_dim"] * config["linear_num_value_heads"],
            "full_attention_interval": config["layer_types"].index("full_attention") + 1,
            "rope.dimension_count": int(head_dim * scaling.get("partial_rotary_factor", 0.25)),
            "rope.dimension_sections": [2, 3, 3, 0],
        }  # fmt: skip
    if config["model_type"] == "granitemoehybrid":
        keys |= {
            "attention.head_count_kv": [
                config["num_key_value_heads"] * (kind != "linear_attention") for kind in config["layer_types"]
            ],
            "ssm.conv_kernel": config["mamba_d_conv"], "ssm.state_size": config["mamba_d_state"],
            "ssm.group_count": config["mamba_n_groups"], "ssm.time_step_rank": config["mamba_n_heads"],
            "ssm.inner_size": config["mamba_expand"] * config["hidden_size"], "rope.scaling.finetuned": False,
            "expert_shared_feed_forward_length": config["shared_intermediate_size"],
        }  # fmt: skip
    if config["model_type"] == "nemotron_h":
        keys |= blocks_of(config)
    if config["model_type"] == "falcon_h1":
        keys |= states_of(config)
    if config["model_type"] == "jamba":
        keys |= channels_of(config)
    if config["model_type"] == "minicpm3":
        keys |= {
            "attention.kv_lora_rank": config["kv_lora_rank"], "attention.q_lora_rank": config["q_lora_rank"],
            "attention.key_length": config["qk_nope_head_dim"] + config["qk_rope_head_dim"],
            "attention.value_length": None, "rope.dimension_count": config["qk_rope_head_dim"],
        }  # fmt: skip
    elif config.get("kv_lora_rank"):
        keys |= sizes_of_latents(config, scaling)
    elif config["model_type"] in ("dots1", "exaone_moe", "glm4_moe", "ernie4_5_moe"):
        keys |= choice_of_experts(config)
    elif config["model_type"] == "minimax_m2":
        keys |= {"expert_feed_forward_length": config["intermediate_size"], "expert_gating_func": 2}
    elif config["model_type"] == "hunyuan_v1_moe":
        keys |= {"expert_feed_forward_length": config["intermediate_size"], "expert_used_count": config["moe_topk"]}
        keys |= {"expert_shared_count": 1, "expert_shared_feed_forward_length": config["intermediate_size"]}
    elif config["model_type"] == "gemma4_text":
        keys |= gemma4_files.uneven_layers(config)
    elif config["model_type"] == "gemma3n_text":
        keys |= gemma3n_files.keys(config)
    if config["model_type"] == "gpt_neox":
        keys["attention.head_count_kv"] = heads
    if config["model_type"] == "falcon":
        keys["attention.head_count_kv"] = kv_heads_of(config)
    name = ARCHITECTURES[config["model_type"]]
    given = {f"{name}.{key}": found for key, found in keys.items() if found is not None}
    return {"general.architecture": name, **given}


def sizes_of_latents(config: dict[str, Any], scaling: dict[str, Any]) -> dict[str, object]:
    """The keys that the converter writes for DeepSeek."""
    turning, rank = config["qk_rope_head_dim"], config["kv_lora_rank"]
    return {
        "attention.head_count_kv": 1, "attention.kv_lora_rank": rank, "attention.q_lora_rank": config["q_lora_rank"],
        "attention.key_length": rank + turning, "attention.value_length": rank,
        "attention.key_length_mla": config["qk_nope_head_dim"] + turning,
        "attention.value_length_mla": config["v_head_dim"], "rope.dimension_count": turning,
        "rope.scaling.yarn_log_multiplier": 0.1 * scaling["mscale_all_dim"] if "mscale_all_dim" in scaling else None,
        **choice_of_experts(config),
    }  # fmt: skip


def apart(name: str, values: np.ndarray, config: dict[str, Any]) -> dict[str, np.ndarray]:
    """What makes the keys of DeepSeek's heads, turned over, and what makes their values."""
    heads = values.reshape(config["num_attention_heads"], -1, values.shape[-1])
    keys, made = np.split(heads, [config["qk_nope_head_dim"]], axis=1)
    return {name.replace("_kv_b", "_k_b"): keys.swapaxes(1, 2), name.replace("_kv_b", "_v_b"): made}


def pattern_of(config: dict[str, Any]) -> object:
    """Which layers have windows, in a number or a list."""
    if config["model_type"] in ("olmo3", "exaone_moe", "gemma3n_text", "gemma4_text"):
        return [int(kind == "sliding_attention") for kind in config["layer_types"]]
    return 2 if config["model_type"] == "gemma3_text" else None


def stretched_base(scaling: dict[str, Any], head_dim: int) -> float | None:
    """The base of turns, into which the converter puts Hunyuan's `alpha`."""
    theta, alpha = scaling.get("rope_theta"), scaling.get("alpha")
    return theta * alpha ** (head_dim / (head_dim - 2)) if theta and alpha else theta


def kv_heads_of(config: dict[str, Any]) -> int:
    """Key-value heads of a checkpoint."""
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        return 1
    return int(config.get("num_key_value_heads") or config.get("num_kv_heads") or config["num_attention_heads"])


def amplitude(config: dict[str, Any]) -> float:
    """What LongRoPE multiplies by."""
    original = config["original_max_position_embeddings"]
    return float((1 + np.log(config["max_position_embeddings"] / original) / np.log(original)) ** 0.5)


def tensors_of(config: dict[str, Any], tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors under llama.cpp's names and in its order."""
    kind, heads = config["model_type"], config.get("num_attention_heads") or config.get("n_heads") or config["n_head"]
    names = {**NAMES, **(GEMMA if kind in ("gemma2", "gemma3_text") else RENAMED.get(kind, {}))}
    names |= GEMMA | gemma4_files.NAMES | gemma3n_files.NAMES if kind in ("gemma3n_text", "gemma4_text") else {}
    found: dict[str, np.ndarray] = {}
    for name, values in stacked(with_states(config, gemma3n_files.in_one(tensors))).items():
        name = name + ".weight" if name.endswith((".layer_scalar", ".correct_output_scale")) else name
        stem, _, end = name.rpartition(".")
        stem = stem.removeprefix("model.").removeprefix("transformer.").removeprefix("gpt_neox.")
        layer, _, part = stem.removeprefix("layers.").removeprefix("blocks.").removeprefix("h.").partition(".")
        prefix = f"blk.{layer}." if layer.isdigit() else ""
        target = names[part if prefix else stem]
        if kind == "gpt2" and values.ndim == 2 and prefix:
            values = values.T
        if target == "attn_qkv" and kind in ("bloom", "gpt_neox"):  # q, k, v of each head -> all q, all k, all v
            values = values.reshape(heads, 3, -1).swapaxes(0, 1).reshape(values.shape)
        if target == "attn_qkv" and kind == "falcon":  # the queries, key and value of each key-value head
            groups = values.reshape(kv_heads_of(config), -1, config["hidden_size"] // heads, *values.shape[1:])
            parts = groups[:, :-2], groups[:, -2], groups[:, -1]
            values = np.concatenate([part.reshape(-1, *values.shape[1:]) for part in parts])
        if kind in NEIGHBOURS and target in ("attn_q", "attn_k"):  # the halves of a head -> neighbours
            count = heads if target == "attn_q" else config["num_key_value_heads"]
            values = values.reshape(count, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
        one_less = kind.startswith(("gemma", "nemotron")) and kind not in ("gemma3n_text", "gemma4_text", "nemotron_h")
        if one_less and target.endswith("norm") and end == "weight":
            values = values + 1
        scaled = {"gemma2": "attn_q", "gemma3_text": "attn_q_norm"}.get(kind)
        if target == scaled:  # llama.cpp scales by the heads' size, these checkpoints by another
            values = values * (config["head_dim"] / config["query_pre_attn_scalar"]) ** 0.5
        named = f"{prefix}{target}.{end}"
        latents = target == "attn_kv_b" and kind != "minicpm3"
        values = values.reshape(-1) if target == "exp_probs_b" else values
        found |= apart(named, values, config) if latents else {named: values}
    if found.get("output.weight") is not None and config.get("tie_word_embeddings"):
        del found["output.weight"]
    bare = (*PLAIN, ".ffn_norm.weight") if kind == "falcon_h1" else PLAIN
    plain = {name: name.removesuffix(".weight") if name.endswith(bare) else name for name in found}
    return {plain[name]: values for name, values in found.items()} | factors_of(config)


def factors_of(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """What stretches the rotary positions of each element, where the converter writes it as a tensor."""
    scaling = config.get("rope_parameters") or {}
    if config["model_type"] == "gemma4_text":
        return {"rope_freqs.weight": np.array(gemma4_files.FACTORS)}
    if scaling.get("rope_type") == "longrope":
        return {f"rope_factors_{name}.weight": np.array(scaling[f"{name}_factor"]) for name in ("long", "short")}
    if scaling.get("rope_type") != "llama3":
        return {}
    half = config["hidden_size"] // config["num_attention_heads"] // 2
    lengths = 2 * np.pi * scaling["rope_theta"] ** (np.arange(half) / half)
    turns = scaling["original_max_position_embeddings"] / lengths
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return {"rope_freqs.weight": 1 / ((1 - smooth) / factor + smooth)}
