"""The architectures of GGUF files: which family each is, and where its weights are.

The names are those of gguf-py/gguf/constants.py and the order of numbers that of convert_hf_to_gguf.py, both in
https://github.com/ggml-org/llama.cpp.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backends.decoder import Attention, Decoder
from model_store import families
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import Family, Source, Stored, Transform, halve_rotary, spread_rotary
from model_store.errors import UnsupportedCheckpoint, suggest
from model_store.families import apertus, deepseek_v2, minicpm3
from model_store.gguf import encoder_decoders, gemma4

Fields = dict[str, Any]  # Any: config.json's


@dataclass(frozen=True)
class Architecture:
    """One value of `general.architecture`."""

    model_type: str
    """The family."""
    order: Transform | None = None
    """How the rows of q and k are put into our order."""
    layer: Mapping[str, Source] = field(default_factory=dict)
    """Norms within a layer that others lack, and without a source those that it lacks."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys that others lack, and the fields of config.json that they are."""
    each: Mapping[str, str] = field(default_factory=dict)
    """Keys that may have another number for each layer, and the fields that they are then."""
    adjust: Callable[[Fields], None] | None = None
    """What follows from other fields."""
    partial: str = ""
    """The field with the share of each head that turns, where a family has one."""
    latent: bool = False
    """Whether heads have no size of their own, being made of what they share."""
    seen: Callable[[Collection[str]], Fields] | None = None
    """Fields that only the names of the tensors tell."""
    tables: Callable[[Family, Config], tuple[Mapping[str, Source], Mapping[str, Source], tuple[str, ...]]] | None = None
    """MODEL, LAYER and UNUSED of files that have none of the names below, since they have an encoder."""


MODEL = {
    "embedding": "token_embd",
    "embedding_norm?": "token_embd_norm",
    "position_embedding?": "position_embd",
    "norm": "output_norm",
    "lm_head": "output",
    **gemma4.MODEL,
}
LAYER = {
    "attention_norm": "blk.{}.attn_norm",
    "o_proj": "blk.{}.attn_output",
    "ffn_norm": "blk.{}.ffn_norm",
    "down_proj": "blk.{}.ffn_down",
}
HEAD_NORMS = {"q_norm": "blk.{}.attn_q_norm", "k_norm": "blk.{}.attn_k_norm"}
BOTH_SIDES = {"post_attention_norm": "blk.{}.post_attention_norm", "post_ffn_norm": "blk.{}.post_ffw_norm"}
WINDOW = {"attention.sliding_window": "sliding_window"}
CAPS = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
CLIP = {"attention.clamp_kqv": "clip_qkv"}
GROWTH = {
    "attention.temperature_scale": "llama_4_scaling_beta",
    "rope.scaling.yarn_beta_fast": "beta_fast",
    "rope.scaling.yarn_beta_slow": "beta_slow",
    "rope.scaling.yarn_log_multiplier": "mscale_all_dim",
}
EXPERTS = {
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "feed_forward_length": "moe_intermediate_size",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
LATENTS = {
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.key_length": "key_length",
    "attention.key_length_mla": "key_length_mla",
    "attention.value_length": "v_head_dim",
    "attention.value_length_mla": "value_length_mla",
    "rope.dimension_count": "qk_rope_head_dim",
    "rope.scaling.yarn_log_multiplier": "mscale_all_dim",
    "leading_dense_block_count": "first_k_dense_replace",
    "expert_count": "n_routed_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_shared_count": "n_shared_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_weights_scale": "routed_scaling_factor",
    "expert_weights_norm": "norm_topk_prob",
    "expert_gating_func": "gating",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
}
LATENT_SIZES = {
    **{key: field for key, field in LATENTS.items() if key.endswith(("lora_rank", "attention.key_length"))},
    "rope.dimension_count": "qk_rope_head_dim",
}
CHOSEN = {key: field for key, field in LATENTS.items() if key.startswith(("expert_", "leading_"))}
"""How DeepSeek and GLM choose experts."""
MANY = {
    "expert_count": "moe_num_experts",
    "expert_used_count": "moe_k",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_count": "moe_num_shared_experts",
    "expert_shared_feed_forward_length": "shared_size_that_tensors_show",
    "interleave_moe_layer_step": "moe_layer_interval",
    "leading_dense_block_count": "moe_layer_start_index",
}
"""What ERNIE calls these."""
GUESSING = {"nextn_predict_layers": "num_nextn_predict_layers"}
"""Layers behind the others that guess tokens ahead, and are not read."""
SIGMOID = 2
"""The value of `expert_gating_func` that is DeepSeek V3's."""
GLM_FLASH = {"vocab_size": 154880, "num_hidden_layers": 47}
"""How llama.cpp knows GLM 4.7 Flash, whose files do not tell that it chooses experts as DeepSeek V3 does."""
FACTORS = {
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "logit_scale": "logits_scaling",
    "residual_scale": "residual_multiplier",
}
LARGEST = {"gemma2": 46, "gemma3_text": 62}
"""Layers of the models of 27B, whose scores are scaled by the width and not by the heads."""


def as_row(values: np.ndarray, attention: Attention) -> np.ndarray:
    """A vector as a matrix of one row."""
    return values.reshape(1, -1)


MIXTURE: Mapping[str, Source] = {
    "router": "blk.{}.ffn_gate_inp",
    "experts.gate_up_proj": "blk.{0}.ffn_gate_exps[{1}] blk.{0}.ffn_up_exps[{1}]",
    "experts.down_proj": "blk.{0}.ffn_down_exps[{1}]",
    "shared_gate": ("blk.{}.ffn_gate_inp_shexp", as_row),
    "gate_up_proj": "blk.{0}.ffn_gate=blk.{0}.ffn_gate_shexp blk.{0}.ffn_up=blk.{0}.ffn_up_shexp",
    "down_proj": "blk.{0}.ffn_down=blk.{0}.ffn_down_shexp",
}
"""Weights of layers with experts."""


def adjust_gemma(config: Fields) -> None:
    """The scale of the scores, and no caps where the file names none."""
    width = config["hidden_size"] // config["num_attention_heads"]
    largest = config["num_hidden_layers"] == LARGEST[config["model_type"]]
    config["query_pre_attn_scalar"] = width if largest else config["head_dim"]
    for name in CAPS.values():
        config.setdefault(name, 0.0)


def adjust_starcoder(config: Fields) -> None:
    """One key-value head, or one for each head."""
    config["multi_query"] = config.get("num_key_value_heads") == 1
    if not config["multi_query"]:
        raise ValueError("starcoder with more than one key-value head is not supported")


def adjust_llama(config: Fields) -> None:
    """Mistral's windows and Mixtral's experts, where the file has them."""
    if config.get("num_experts"):
        config["model_type"] = "mixtral"
        adjust_experts(config)
    elif config.get("sliding_window"):
        config["model_type"] = "mistral"


def adjust_exaone(config: Fields) -> None:
    """No windows where the file names none."""
    config.setdefault("sliding_window", 0)


def adjust_olmo(config: Fields) -> None:
    """OLMo 3 has windows, in which positions turn as elsewhere, but are not stretched."""
    if config.get("sliding_window"):
        config["model_type"] = "olmo3"
        config.setdefault("rope_local_base_freq", config.get("rope_theta"))


def adjust_apertus(config: Fields) -> None:
    """No stretch where the file has none."""
    config["rope_scaling"] = config["rope_scaling"] or {"rope_type": "default"}


def adjust_ministral(config: Fields) -> None:
    """What stretches positions, and how much queries would grow."""
    fields = {name: config.pop(name, None) for name in GROWTH.values()}
    config["rope_scaling"] = {**(config["rope_scaling"] or {"rope_type": "default"}), **fields}
    config["rope_scaling"]["mscale"] = fields["mscale_all_dim"] and 1.0


def adjust_mpt(config: Fields) -> None:
    """What MPT calls otherwise."""
    most = config.get("alibi_bias_max")
    config["attn_config"] = {"alibi": bool(most), "alibi_bias_max": most, "clip_qkv": config.get("clip_qkv")}
    config |= {"d_model": config["hidden_size"], "n_heads": config["num_attention_heads"]}
    config |= {"n_layers": config["num_hidden_layers"], "max_seq_len": config["max_position_embeddings"]}


def adjust_falcon(config: Fields) -> None:
    """The newer kind has several key-value heads."""
    config["num_kv_heads"] = config.get("num_key_value_heads")
    config["new_decoder_architecture"] = config["num_kv_heads"] != 1


def adjust_experts(config: Fields) -> None:
    """What families call the experts' number and size; shares whose sum is one, where they are so."""
    if "moe_intermediate_size" not in config:
        raise ValueError("it has experts, and does not tell their size (feed_forward_length)")
    config["intermediate_size"] = config["moe_intermediate_size"]
    config["num_local_experts"] = config["num_experts"]
    config["norm_topk_prob"] = config["model_type"] == "qwen3_moe"


def adjust_granite(config: Fields) -> None:
    """One more expert, for all tokens, where the file has it."""
    adjust_experts(config)
    if config.get("shared_expert_intermediate_size"):
        config["model_type"] = "granitemoeshared"
        config["shared_intermediate_size"] = config["shared_expert_intermediate_size"]


def adjust_deepseek(config: Fields) -> None:
    """DeepSeek V3 by how it chooses experts, Youtu where there are none.

    Newer files tell sizes of what llama.cpp caches, and of heads beside.
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


def adjust_minicpm(config: Fields) -> None:
    """The elements of a head that do not turn; the factors are those of MiniCPM3 of 4B, as in llama.cpp."""
    config["qk_nope_head_dim"] = config.pop("key_length") - config["qk_rope_head_dim"]


def adjust_glm(config: Fields) -> None:
    """What GLM 4.5 has where the file does not say it."""
    if config.pop("gating", SIGMOID) != SIGMOID:
        raise ValueError("glm4moe chooses experts by sigmoids alone (expert_gating_func)")
    config.setdefault("first_k_dense_replace", 0)
    config.setdefault("norm_topk_prob", False)


def adjust_gpt_oss(config: Fields) -> None:
    """No number of turns is rounded where positions are stretched."""
    adjust_experts(config)
    if config["rope_scaling"]:
        config["rope_scaling"]["truncate"] = False


def renamed(source: Stored) -> Stored:
    """The source of a weight of latents under the names that files have."""
    written, *transforms = [source] if isinstance(source, str) else source
    name = str(written)
    for ours, theirs in {
        "layers.{}.self_attn.": "blk.{}.attn_",
        "layers.{0}.self_attn.": "blk.{0}.attn_",
        "_proj_with": "",
        "_proj": "",
        "layernorm": "norm",
        "attn_o": "attn_output",
    }.items():
        name = name.replace(ours, theirs)
    return (name, *transforms) if transforms else name


ARCHITECTURES: Mapping[str, Architecture] = {
    "apertus": Architecture(
        "apertus", layer={**HEAD_NORMS, "xielu": ("blk.{}.xielu", apertus.factors)}, adjust=adjust_apertus
    ),
    "arcee": Architecture("arcee", halve_rotary),
    "bloom": Architecture("bloom"),
    "cohere2": Architecture(
        "cohere2", halve_rotary, layer={"ffn_norm": ""}, keys={"logit_scale": "logit_scale", **WINDOW}
    ),
    "command-r": Architecture("cohere", halve_rotary, layer={"ffn_norm": ""}, keys={"logit_scale": "logit_scale"}),
    "deepseek2": Architecture(
        "deepseek_v2",
        layer={
            "qkv_proj": "",
            "choice_bias?": "blk.{}.exp_probs_b.bias",
            **{name: renamed(source) for name, source in deepseek_v2.LATENT.items()},
        },
        keys={**LATENTS, **GUESSING},
        adjust=adjust_deepseek,
        latent=True,
    ),
    "ernie4_5": Architecture("ernie4_5", halve_rotary),
    "ernie4_5-moe": Architecture(
        "ernie4_5_moe", halve_rotary, layer={"choice_bias": "blk.{}.exp_probs_b.bias"}, keys=MANY
    ),
    "exaone4": Architecture(
        "exaone4", layer={"attention_norm": "", "ffn_norm": "", **BOTH_SIDES, **HEAD_NORMS}, adjust=adjust_exaone
    ),
    "falcon": Architecture("falcon", layer={"ffn_norm": ""}, adjust=adjust_falcon),
    "gemma": Architecture("gemma"),
    "gemma2": Architecture("gemma2", layer=BOTH_SIDES, keys={**CAPS, **WINDOW}, adjust=adjust_gemma),
    "gemma3": Architecture(
        "gemma3_text",
        layer={**BOTH_SIDES, **HEAD_NORMS},
        keys={
            **WINDOW,
            "final_logit_softcapping": "final_logit_softcapping",
            "rope.freq_base_swa": "rope_local_base_freq",
            "attention.sliding_window_pattern": "sliding_window_pattern",
        },
        adjust=adjust_gemma,
    ),
    "gemma4": Architecture(
        "gemma4_text",
        layer={**BOTH_SIDES, **HEAD_NORMS, **gemma4.LAYER},
        keys=gemma4.KEYS,
        each=gemma4.EACH,
        seen=gemma4.seen,
        adjust=gemma4.adjust,
    ),
    "glm4": Architecture("glm4", halve_rotary, layer=BOTH_SIDES, partial="partial_rotary_factor"),
    "glm4moe": Architecture(
        "glm4_moe",
        spread_rotary,
        layer={
            **{f"{name}?": (source, spread_rotary) for name, source in HEAD_NORMS.items()},
            "ffn_norm": "blk.{}.post_attention_norm",
            "choice_bias": "blk.{}.exp_probs_b.bias",
        },
        keys={**CHOSEN, **GUESSING},
        adjust=adjust_glm,
        partial="partial_rotary_factor",
    ),
    "gpt-oss": Architecture(
        "gpt_oss",
        layer={"ffn_norm": "blk.{}.post_attention_norm", "sinks": "blk.{}.attn_sinks"},
        keys={**EXPERTS, **WINDOW},
        adjust=adjust_gpt_oss,
    ),
    "gpt2": Architecture("gpt2"),
    "gptneox": Architecture(
        "gpt_neox",
        spread_rotary,
        keys={"use_parallel_residual": "use_parallel_residual", "rope.freq_base": "rotary_emb_base"},
        partial="rotary_pct",
    ),
    "granite": Architecture("granite", halve_rotary, keys=FACTORS),
    "granitemoe": Architecture("granitemoe", halve_rotary, keys={**EXPERTS, **FACTORS}, adjust=adjust_granite),
    "hunyuan-dense": Architecture("hunyuan_v1_dense", layer=HEAD_NORMS),
    "llama": Architecture("llama", halve_rotary, keys={**EXPERTS, **WINDOW}, adjust=adjust_llama),
    "minicpm3": Architecture(
        "minicpm3",
        layer={"qkv_proj": "", **{name: renamed(minicpm3.LAYER[name]) for name in deepseek_v2.LATENT}},
        keys=LATENT_SIZES,
        adjust=adjust_minicpm,
        latent=True,
    ),
    "mistral3": Architecture("ministral3", halve_rotary, keys=GROWTH, adjust=adjust_ministral),
    "mpt": Architecture("mpt", keys={**CLIP, "attention.max_alibi_bias": "alibi_bias_max"}, adjust=adjust_mpt),
    "nemotron": Architecture("nemotron", spread_rotary, partial="partial_rotary_factor"),
    "olmo": Architecture("olmo", halve_rotary, keys=CLIP),
    "olmo2": Architecture(
        "olmo2",
        layer={"attention_norm": "", "ffn_norm": "", **BOTH_SIDES, **HEAD_NORMS},
        keys={**WINDOW, "rope.freq_base_swa": "rope_local_base_freq"},
        adjust=adjust_olmo,
    ),
    "olmoe": Architecture("olmoe", layer=HEAD_NORMS, keys=EXPERTS, adjust=adjust_experts),
    "phi2": Architecture("phi", spread_rotary, layer={"ffn_norm": ""}, partial="partial_rotary_factor"),
    "phi3": Architecture("phi3", spread_rotary, keys=WINDOW, partial="partial_rotary_factor"),
    "phimoe": Architecture("phimoe", keys={**EXPERTS, **WINDOW}, adjust=adjust_experts),
    "qwen2": Architecture("qwen2"),
    "qwen2moe": Architecture("qwen2_moe", keys=EXPERTS, adjust=adjust_experts),
    "qwen2vl": Architecture("qwen2_vl"),
    "qwen3": Architecture("qwen3", layer=HEAD_NORMS),
    "qwen3moe": Architecture("qwen3_moe", layer=HEAD_NORMS, keys=EXPERTS, adjust=adjust_experts),
    "qwen3vl": Architecture("qwen3_vl", layer=HEAD_NORMS),
    "seed_oss": Architecture("seed_oss", layer={"ffn_norm": "blk.{}.post_attention_norm"}),
    "smollm3": Architecture("smollm3", halve_rotary),
    "stablelm": Architecture(
        "stablelm",
        spread_rotary,
        layer={"ffn_norm": "", "ffn_norm?": "blk.{}.ffn_norm"},
        keys={"use_parallel_residual": "use_parallel_residual"},
        partial="partial_rotary_factor",
    ),
    "starcoder": Architecture("gpt_bigcode", adjust=adjust_starcoder),
    "starcoder2": Architecture("starcoder2", keys=WINDOW),
    "t5": Architecture(
        "t5",
        keys=encoder_decoders.KEYS,
        seen=encoder_decoders.seen,
        adjust=encoder_decoders.adjust,
        tables=encoder_decoders.tables,
    ),
}
"""What runs, by `general.architecture`."""


def find(name: object) -> Architecture:
    """The architecture called `name`."""
    if isinstance(name, str) and name in ARCHITECTURES:
        return ARCHITECTURES[name]
    near = suggest(name, ARCHITECTURES, who="its maker")
    hint = f"; {near}" if near else ""
    known = ", ".join(ARCHITECTURES)
    raise UnsupportedCheckpoint(f"GGUF files of the architecture {name!r} are not supported{hint} (known: {known})")


def made(table: Mapping[str, Source]) -> dict[str, Source]:
    """The weights of a family that no file holds."""
    return {name: source for name, source in table.items() if callable(source)}


class GgufFamily:
    """A family whose weights have the names and the order that GGUF files give them."""

    PREFIX: str | tuple[str, ...] = ""
    UNUSED: tuple[str, ...] = (
        "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight",
        "blk.{}.attn_k*", "blk.{}.attn_v*",
    )  # fmt: skip
    TIED = False
    MODEL: Mapping[str, Source]
    LAYER: Mapping[str, Source]

    def __init__(self, architecture: Architecture, config: Config, names: Mapping[str, object]):
        """Of the tensors in `names`: some makers of files join q, k and v, others do not."""
        self.family = families.find(config)
        if architecture.tables:
            self.MODEL, self.LAYER, self.UNUSED = architecture.tables(self.family, config)
            return
        qkv = "blk.{}.attn_qkv"
        if qkv.format(0) + ".weight" not in names:
            qkv = "blk.{0}.attn_q blk.{0}.attn_k blk.{0}.attn_v"
        ffn = {"up_proj": "blk.{}.ffn_up"}
        if "blk.0.ffn_gate.weight" in names:
            ffn = {"gate_up_proj": "blk.{0}.ffn_gate blk.{0}.ffn_up"}
        elif "gate_up_proj" in self.family.LAYER:
            ffn = {"gate_up_proj": "blk.{}.ffn_up"}
        mixture = {name: source for name, source in MIXTURE.items() if "router" in self.family.LAYER}
        if "shared_gate" not in self.family.LAYER:
            mixture.pop("shared_gate", None)
        layers, guessing = config.get("num_hidden_layers", 0), config.get("num_nextn_predict_layers", 0)
        self.UNUSED = (*self.UNUSED, *(f"blk.{i}.*" for i in range(layers, layers + guessing)))
        self.MODEL = {**MODEL, **made(self.family.MODEL)}
        self.LAYER = {
            name: (qkv, architecture.order) if name == "qkv_proj" and architecture.order else source
            for name, source in {
                **LAYER,
                "qkv_proj": qkv,
                **ffn,
                **mixture,
                **made(self.family.LAYER),
                **architecture.layer,
            }.items()
            if source
        }

    def decoder(self, config: Config) -> Decoder:
        """Read what is as config.json would say it."""
        return self.family.decoder(config)
