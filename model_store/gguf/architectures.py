"""GGUF's architectures: their families, and where their weights are.

The names are those of gguf-py/gguf/constants.py and the order of numbers that of convert_hf_to_gguf.py, both in
https://github.com/ggml-org/llama.cpp.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from backends.decoder import Decoder, Layer
from backends.suggest import suggest
from model_store import families
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.weights import (
    Family,
    Source,
    Transform,
    gates_alone,
    halve_rotary,
    renamed,
    spread_rotary,
    without_gates,
)
from model_store.errors import UnsupportedCheckpoint
from model_store.families import apertus, deepseek_v2, minicpm3
from model_store.gguf import adjustments, encoder_decoders, gemma3n, gemma4, states
from model_store.gguf.adjustments import CAPS, GROWTH, Fields


@dataclass(frozen=True)
class Architecture:
    """A value of `general.architecture`."""

    model_type: str
    """The family's `model_type`."""
    order: Transform | None = None
    """The transform of q and k to our order of rows."""
    layer: Mapping[str, Source] = field(default_factory=dict)
    """Further weights within a layer; "" as source for those that it lacks."""
    model: Mapping[str, Source] = field(default_factory=dict)
    """The same outside of layers."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Further keys, with their fields of config.json."""
    each: Mapping[str, str] = field(default_factory=dict)
    """Keys that may have a value for each layer, with their fields in that case."""
    adjust: Callable[[Fields], None] | None = None
    """Sets fields that follow from others."""
    without_keys: str = ""
    """config.json's name of layers without key-value heads, if there are any."""
    partial: str = ""
    """The field for the rotary share of each head, if the family has one."""
    latent: bool = False
    """Whether attention is latent, so that there is no key for the size of heads."""
    seen: Callable[[Collection[str]], Fields] | None = None
    """Reads fields that follow from the tensors' names."""
    tables: Callable[[Family, Config], tuple[Mapping[str, Source], Mapping[str, Source], tuple[str, ...]]] | None = None
    """MODEL, LAYER and UNUSED of encoder-decoders, whose files use none of the names below."""


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
CLIP = {"attention.clamp_kqv": "clip_qkv"}
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
"""ERNIE's names for these."""
FEW = {
    "expert_count": "num_experts",
    "expert_used_count": "moe_topk",
    "expert_shared_count": "num_shared_expert",
    "expert_feed_forward_length": "intermediate_size",
    "expert_shared_feed_forward_length": "shared_size_that_tensors_show",
}
"""Hunyuan's names for these."""
GUESSING = {"nextn_predict_layers": "num_nextn_predict_layers"}
"""Extra layers for multi-token prediction, which are not read."""
FACTORS = {
    "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "logit_scale": "logits_scaling",
    "residual_scale": "residual_multiplier",
}


def as_row(values: np.ndarray, layer: Layer) -> np.ndarray:
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


DELTA_NET: Mapping[str, Source] = {
    **{name: (source, spread_rotary) for name, source in HEAD_NORMS.items()},
    "qkv_proj": ("blk.{0}.attn_q blk.{0}.attn_k blk.{0}.attn_v", without_gates, spread_rotary),
    "attention_gate": ("blk.{}.attn_q", gates_alone),
    "ffn_norm": "blk.{}.post_attention_norm",
    "o_proj": ("blk.{0}.attn_output=blk.{0}.ssm_out", states.columns_by_key),
    "qkvz_proj": ("blk.{0}.attn_qkv blk.{0}.attn_gate", states.values_by_key),
    "rates_proj": ("blk.{0}.ssm_beta blk.{0}.ssm_alpha", states.heads_by_key),
    "convolution": ("blk.{}.ssm_conv1d", states.values_by_key),
    "decay": ("blk.{}.ssm_a", states.logarithms, states.heads_by_key),
    "decay_bias": ("blk.{}.ssm_dt.bias", states.heads_by_key),
    "value_norm": "blk.{}.ssm_norm",
}
"""Weights of Qwen 3.5, most of whose layers are delta nets."""
SHORT: Mapping[str, Source] = {
    **HEAD_NORMS,
    "in_proj": "blk.{}.shortconv.in_proj",
    "convolution": "blk.{}.shortconv.conv",
    "o_proj": "blk.{0}.attn_output=blk.{0}.shortconv.out_proj",
}
"""Weights of LFM2, most of whose layers are short convolutions."""
SHORT_MODEL = {"norm": "token_embd_norm", "embedding_norm?": ""}

OF_LATENTS = {
    "layers.{}.self_attn.": "blk.{}.attn_",
    "layers.{0}.self_attn.": "blk.{0}.attn_",
    "_proj_with": "",
    "_proj": "",
    "layernorm": "norm",
    "attn_o": "attn_output",
}
"""Parts of the publisher's names of latent attention weights, with llama.cpp's names."""

ARCHITECTURES: Mapping[str, Architecture] = {
    "afmoe": Architecture(
        "afmoe",
        layer={**BOTH_SIDES, **HEAD_NORMS, "attention_gate": "blk.{}.attn_gate"}
        | {"choice_bias": "blk.{}.exp_probs_b.bias"},
        keys={**EXPERTS, **WINDOW, "leading_dense_block_count": "num_dense_layers", "expert_gating_func": "gating"}
        | {"expert_weights_scale": "route_scale", "expert_weights_norm": "norm_topk_prob"}
        | {"expert_shared_count": "num_shared_experts"},
        adjust=adjustments.afmoe,
    ),
    "apertus": Architecture(
        "apertus", layer={**HEAD_NORMS, "xielu": ("blk.{}.xielu", apertus.factors)}, adjust=adjustments.apertus
    ),
    "arcee": Architecture("arcee", halve_rotary),
    "bitnet-b1.58": Architecture(
        "bitnet", layer={"attention_sub_norm": "blk.{}.attn_sub_norm", "ffn_sub_norm": "blk.{}.ffn_sub_norm"}
    ),
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
            **{name: renamed(source, OF_LATENTS) for name, source in deepseek_v2.LATENT.items()},
        },
        keys={**LATENTS, **GUESSING},
        adjust=adjustments.deepseek,
        latent=True,
    ),
    "dots1": Architecture(
        "dots1",
        layer={**HEAD_NORMS, "choice_bias": "blk.{}.exp_probs_b.bias"},
        keys=CHOSEN,
        adjust=adjustments.by_sigmoids,
    ),
    "ernie4_5": Architecture("ernie4_5", halve_rotary),
    "ernie4_5-moe": Architecture(
        "ernie4_5_moe", halve_rotary, layer={"choice_bias": "blk.{}.exp_probs_b.bias"}, keys=MANY
    ),
    "exaone": Architecture("exaone"),
    "exaone-moe": Architecture(
        "exaone_moe",
        layer={**HEAD_NORMS, "choice_bias": "blk.{}.exp_probs_b.bias"},
        keys={**CHOSEN, **EXPERTS, **WINDOW, **GUESSING, "expert_shared_count": "num_shared_experts"},
        adjust=adjustments.k_exaone,
    ),
    "exaone4": Architecture(
        "exaone4", layer={"attention_norm": "", "ffn_norm": "", **BOTH_SIDES, **HEAD_NORMS}, adjust=adjustments.exaone
    ),
    "falcon": Architecture("falcon", layer={"ffn_norm": ""}, adjust=adjustments.falcon),
    "falcon-h1": Architecture(
        "falcon_h1", layer=states.BESIDE, keys=states.MAMBA_SIZES, seen=states.normed, adjust=states.adjust_beside
    ),
    "gemma": Architecture("gemma"),
    "gemma2": Architecture("gemma2", layer=BOTH_SIDES, keys={**CAPS, **WINDOW}, adjust=adjustments.gemma),
    "gemma3": Architecture(
        "gemma3_text",
        layer={**BOTH_SIDES, **HEAD_NORMS},
        keys={
            **WINDOW,
            "final_logit_softcapping": "final_logit_softcapping",
            "rope.freq_base_swa": "rope_local_base_freq",
            "attention.sliding_window_pattern": "sliding_window_pattern",
        },
        adjust=adjustments.gemma,
    ),
    "gemma3n": Architecture(
        "gemma3n_text",
        layer={**BOTH_SIDES, **HEAD_NORMS, **gemma3n.LAYER},
        model=gemma3n.MODEL,
        keys=gemma3n.KEYS,
        each=gemma3n.EACH,
        adjust=gemma3n.adjust,
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
        adjust=adjustments.glm,
        partial="partial_rotary_factor",
    ),
    "gpt-oss": Architecture(
        "gpt_oss",
        layer={"ffn_norm": "blk.{}.post_attention_norm", "sinks": "blk.{}.attn_sinks"},
        keys={**EXPERTS, **WINDOW},
        adjust=adjustments.gpt_oss,
    ),
    "gpt2": Architecture("gpt2"),
    "gptneox": Architecture(
        "gpt_neox",
        spread_rotary,
        keys={"use_parallel_residual": "use_parallel_residual", "rope.freq_base": "rotary_emb_base"},
        partial="rotary_pct",
    ),
    "granite": Architecture("granite", halve_rotary, keys=FACTORS),
    "granitemoe": Architecture("granitemoe", halve_rotary, keys={**EXPERTS, **FACTORS}, adjust=adjustments.granite),
    "granitehybrid": Architecture(
        "granitemoehybrid",
        halve_rotary,
        layer=states.MAMBA,
        keys={**EXPERTS, **FACTORS, **states.MAMBA_SIZES, "rope.scaling.finetuned": "turns"},
        adjust=states.adjust_mamba,
        without_keys="linear_attention",
    ),
    "hunyuan-dense": Architecture("hunyuan_v1_dense", layer=HEAD_NORMS),
    "hunyuan-moe": Architecture("hunyuan_v1_moe", layer=HEAD_NORMS, keys=FEW),
    "jamba": Architecture(
        "jamba",
        layer=states.SELECTIVE,
        keys=states.SELECTIVE_SIZES,
        seen=states.mixing,
        adjust=states.adjust_selective,
        without_keys="linear_attention",
    ),
    "lfm2": Architecture(
        "lfm2",
        layer=SHORT,
        model=SHORT_MODEL,
        keys={"shortconv.l_cache": "conv_L_cache"},
        without_keys="conv",
    ),
    "lfm2moe": Architecture(
        "lfm2_moe",
        layer={**SHORT, "choice_bias": "blk.{}.exp_probs_b.bias"},
        model=SHORT_MODEL,
        keys={**EXPERTS, "shortconv.l_cache": "conv_L_cache", "leading_dense_block_count": "num_dense_layers"}
        | {"expert_gating_func": "gating"},
        adjust=adjustments.lfm2,
        without_keys="conv",
    ),
    "llama": Architecture("llama", halve_rotary, keys={**EXPERTS, **WINDOW}, adjust=adjustments.llama),
    "minicpm3": Architecture(
        "minicpm3",
        layer={"qkv_proj": "", **{name: renamed(minicpm3.LAYER[name], OF_LATENTS) for name in deepseek_v2.LATENT}},
        keys=LATENT_SIZES,
        adjust=adjustments.minicpm,
        latent=True,
    ),
    "minimax-m2": Architecture(
        "minimax_m2",
        spread_rotary,
        layer={
            **{name: (source, spread_rotary) for name, source in HEAD_NORMS.items()},
            "choice_bias": "blk.{}.exp_probs_b.bias",
        },
        keys={**EXPERTS, "expert_gating_func": "gating", "expert_weights_norm": "norm_topk_prob"},
        adjust=adjustments.minimax,
        partial="partial_rotary_factor",
    ),
    "mistral3": Architecture("ministral3", halve_rotary, keys=GROWTH, adjust=adjustments.ministral),
    "mpt": Architecture("mpt", keys={**CLIP, "attention.max_alibi_bias": "alibi_bias_max"}, adjust=adjustments.mpt),
    "nemotron": Architecture("nemotron", spread_rotary, partial="partial_rotary_factor"),
    "nemotron_h": Architecture(
        "nemotron_h",
        layer=states.BLOCKS,
        keys=states.BLOCK_SIZES,
        each={"feed_forward_length": "lengths"},
        adjust=states.adjust_blocks,
        without_keys="linear_attention",
        partial="partial_rotary_factor",
    ),
    "olmo": Architecture("olmo", halve_rotary, keys=CLIP),
    "olmo2": Architecture(
        "olmo2",
        layer={"attention_norm": "", "ffn_norm": "", **BOTH_SIDES, **HEAD_NORMS},
        keys={**WINDOW, "rope.freq_base_swa": "rope_local_base_freq"},
        adjust=adjustments.olmo,
    ),
    "olmoe": Architecture("olmoe", layer=HEAD_NORMS, keys=EXPERTS, adjust=adjustments.experts),
    "phi2": Architecture("phi", spread_rotary, layer={"ffn_norm": ""}, partial="partial_rotary_factor"),
    "phi3": Architecture("phi3", spread_rotary, keys=WINDOW, partial="partial_rotary_factor"),
    "phimoe": Architecture("phimoe", keys={**EXPERTS, **WINDOW}, adjust=adjustments.experts),
    "qwen2": Architecture("qwen2"),
    "qwen2moe": Architecture("qwen2_moe", keys=EXPERTS, adjust=adjustments.experts),
    "qwen2vl": Architecture("qwen2_vl"),
    "qwen3": Architecture("qwen3", layer=HEAD_NORMS),
    "qwen35": Architecture(
        "qwen3_5_text",
        layer=DELTA_NET,
        keys={**states.SIZES, **GUESSING},
        adjust=states.adjust,
        partial="partial_rotary_factor",
    ),
    "qwen35moe": Architecture(
        "qwen3_5_moe_text",
        layer=DELTA_NET,
        keys={**states.SIZES, **EXPERTS, **GUESSING},
        adjust=adjustments.qwen,
        partial="partial_rotary_factor",
    ),
    "qwen3moe": Architecture("qwen3_moe", layer=HEAD_NORMS, keys=EXPERTS, adjust=adjustments.experts),
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
    "starcoder": Architecture("gpt_bigcode", adjust=adjustments.starcoder),
    "starcoder2": Architecture("starcoder2", keys=WINDOW),
    "t5": Architecture(
        "t5",
        keys=encoder_decoders.KEYS,
        seen=encoder_decoders.seen,
        adjust=encoder_decoders.adjust,
        tables=encoder_decoders.tables,
    ),
}
"""The supported architectures by `general.architecture`."""


def find(name: object) -> Architecture:
    """The architecture called `name`."""
    if isinstance(name, str) and name in ARCHITECTURES:
        return ARCHITECTURES[name]
    near = suggest(name, ARCHITECTURES, who="its maker")
    hint = f"; {near}" if near else ""
    known = ", ".join(ARCHITECTURES)
    raise UnsupportedCheckpoint(f"GGUF files of the architecture {name!r} are not supported{hint} (known: {known})")


def made(table: Mapping[str, Source]) -> dict[str, Source]:
    """The weights of a family that no file contains."""
    return {name: source for name, source in table.items() if callable(source)}


class GgufFamily:
    """A family with the names and the order of GGUF files."""

    PREFIX: str | tuple[str, ...] = ""
    UNUSED: tuple[str, ...] = (
        "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight",
        "blk.{}.attn_k*", "blk.{}.attn_v*",
    )  # fmt: skip
    TIED = False
    MODEL: Mapping[str, Source]
    LAYER: Mapping[str, Source]

    def __init__(self, architecture: Architecture, config: Config, names: Mapping[str, object]):
        """For the tensors in `names`: some converters join q, k and v, others do not."""
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
        model = {**MODEL, **made(self.family.MODEL), **architecture.model}
        self.MODEL = {name: source for name, source in model.items() if source}
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
        """Read fields in the form of config.json."""
        return self.family.decoder(config)
