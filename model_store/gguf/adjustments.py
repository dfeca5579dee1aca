"""Fields of config.json that follow from other keys of a GGUF file, by architecture."""

from typing import Any

from model_store.gguf import states

Fields = dict[str, Any]  # Any: config.json's
CAPS = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
GROWTH = {
    "attention.temperature_scale": "llama_4_scaling_beta",
    "rope.scaling.yarn_beta_fast": "beta_fast",
    "rope.scaling.yarn_beta_slow": "beta_slow",
    "rope.scaling.yarn_log_multiplier": "mscale_all_dim",
}
SIGMOID = 2
"""The value of `expert_gating_func` for DeepSeek V3."""
GLM_FLASH = {"vocab_size": 154880, "num_hidden_layers": 47}
"""How llama.cpp recognises GLM 4.7 Flash, whose files do not say that it chooses experts as DeepSeek V3 does."""
LARGEST = {"gemma2": 46, "gemma3_text": 62}
"""Layers of the 27B models, whose scores are scaled by the width rather than the heads."""


def gemma(config: Fields) -> None:
    """The scores' scale, and no caps if the file has none."""
    width = config["hidden_size"] // config["num_attention_heads"]
    largest = config["num_hidden_layers"] == LARGEST[config["model_type"]]
    config["query_pre_attn_scalar"] = width if largest else config["head_dim"]
    for name in CAPS.values():
        config.setdefault(name, 0.0)


def starcoder(config: Fields) -> None:
    """One key-value head, or one for each head."""
    config["multi_query"] = config.get("num_key_value_heads") == 1
    if not config["multi_query"]:
        raise ValueError("starcoder with more than one key-value head is not supported")


def llama(config: Fields) -> None:
    """Mistral's windows and Mixtral's experts, if the file has them."""
    if config.get("num_experts"):
        config["model_type"] = "mixtral"
        experts(config)
    elif config.get("sliding_window"):
        config["model_type"] = "mistral"


def exaone(config: Fields) -> None:
    """No windows if the file has none."""
    config.setdefault("sliding_window", 0)


def by_sigmoids(config: Fields) -> None:
    """Experts chosen by sigmoids, as in the family."""
    if config.pop("gating", SIGMOID) != SIGMOID:
        raise ValueError(f"{config['model_type']} chooses experts by sigmoids alone (expert_gating_func)")


def minimax(config: Fields) -> None:
    """Experts chosen by sigmoids, with shares that sum to 1."""
    by_sigmoids(config)
    if not config.pop("norm_topk_prob", True):
        raise ValueError("minimax_m2 has shares that are one together (expert_weights_norm)")
    experts(config)


def k_exaone(config: Fields) -> None:
    """Experts chosen by sigmoids; no windows if the file has none."""
    by_sigmoids(config)
    exaone(config)


def olmo(config: Fields) -> None:
    """OLMo 3 has windows, in which positions are unscaled."""
    if config.get("sliding_window"):
        config["model_type"] = "olmo3"
        config.setdefault("rope_local_base_freq", config.get("rope_theta"))


def afmoe(config: Fields) -> None:
    """Experts chosen by sigmoids, and scaled embeddings, as llama.cpp assumes for all files."""
    chosen = config.pop("gating", SIGMOID) == SIGMOID and config.pop("norm_topk_prob", True)
    if not chosen or "moe_intermediate_size" not in config:
        raise ValueError("afmoe chooses experts by sigmoids whose shares are one together, and tells their size")
    config["mup_enabled"] = True


def apertus(config: Fields) -> None:
    """No scaling of positions if the file has none."""
    config["rope_scaling"] = config["rope_scaling"] or {"rope_type": "default"}


def ministral(config: Fields) -> None:
    """The scaling of positions, and the growth of queries."""
    fields = {name: config.pop(name, None) for name in GROWTH.values()}
    config["rope_scaling"] = {**(config["rope_scaling"] or {"rope_type": "default"}), **fields}
    config["rope_scaling"]["mscale"] = fields["mscale_all_dim"] and 1.0


def mpt(config: Fields) -> None:
    """MPT's own names of fields."""
    most = config.get("alibi_bias_max")
    config["attn_config"] = {"alibi": bool(most), "alibi_bias_max": most, "clip_qkv": config.get("clip_qkv")}
    config |= {"d_model": config["hidden_size"], "n_heads": config["num_attention_heads"]}
    config |= {"n_layers": config["num_hidden_layers"], "max_seq_len": config["max_position_embeddings"]}


def falcon(config: Fields) -> None:
    """The newer architecture has several key-value heads."""
    config["num_kv_heads"] = config.get("num_key_value_heads")
    config["new_decoder_architecture"] = config["num_kv_heads"] != 1


def experts(config: Fields) -> None:
    """Families' names for the experts' number and size; normalised shares, if they are."""
    if "moe_intermediate_size" not in config:
        raise ValueError("it has experts, and does not tell their size (feed_forward_length)")
    config["intermediate_size"] = config["moe_intermediate_size"]
    config["num_local_experts"] = config["num_experts"]
    config["norm_topk_prob"] = config["model_type"] == "qwen3_moe"


def granite(config: Fields) -> None:
    """A shared expert, if the file has it."""
    experts(config)
    if config.get("shared_expert_intermediate_size"):
        config["model_type"] = "granitemoeshared"
        config["shared_intermediate_size"] = config["shared_expert_intermediate_size"]


def qwen(config: Fields) -> None:
    """The sizes of states, and of experts."""
    states.adjust(config)
    experts(config)


def lfm2(config: Fields) -> None:
    """Experts chosen by sigmoids, in all files."""
    if config.pop("gating", SIGMOID) != SIGMOID or "moe_intermediate_size" not in config:
        raise ValueError("lfm2moe chooses experts by sigmoids alone, and tells their size (expert_gating_func)")


def deepseek(config: Fields) -> None:
    """DeepSeek V3, if experts are chosen in its way, or Youtu, if there are none.

    Newer files have the sizes of what llama.cpp caches, and the heads' sizes apart.
    """
    whole, value = config.pop("key_length_mla", None), config.pop("value_length_mla", None)
    length, share = config.pop("key_length", None), config.pop("mscale_all_dim", None)
    if whole:
        length, config["v_head_dim"] = whole, value
    mixed = bool(config.get("n_routed_experts"))
    if not length or not config.get("qk_rope_head_dim") or (mixed and not config.get("moe_intermediate_size")):
        raise ValueError("it does not tell the sizes of heads, of what turns in them, or of experts")
    config["qk_nope_head_dim"] = length - config["qk_rope_head_dim"]
    config["num_key_value_heads"] = config["num_attention_heads"]
    if config["rope_scaling"] and share:
        config["rope_scaling"] |= {"mscale": 10 * share, "mscale_all_dim": 10 * share}
    once = {"first_k_dense_replace": 0, "n_group": 1, "topk_group": 1, "n_shared_experts": 0, "norm_topk_prob": False}
    config |= {name: config.get(name, value) for name, value in once.items()}
    gating = config.pop("gating", SIGMOID if GLM_FLASH.items() <= config.items() else None)
    if not mixed:
        config["model_type"] = "youtu"
    elif gating == SIGMOID:
        config["model_type"] = "deepseek_v3"
    elif config["n_group"] > 1:
        raise ValueError("experts in groups that softmax chooses from are not supported (expert_group_count)")


def minicpm(config: Fields) -> None:
    """A head's elements without rotation; the factors are those of MiniCPM3 of 4B, as in llama.cpp."""
    config["qk_nope_head_dim"] = config.pop("key_length") - config["qk_rope_head_dim"]


def glm(config: Fields) -> None:
    """GLM 4.5's values for what the file does not say."""
    by_sigmoids(config)
    config.setdefault("first_k_dense_replace", 0)
    config.setdefault("norm_topk_prob", False)


def gpt_oss(config: Fields) -> None:
    """YaRN's ramp is not rounded to whole elements."""
    experts(config)
    if config["rope_scaling"]:
        config["rope_scaling"]["truncate"] = False
