"""The fields of config.json that are read, and their valid values, checked before anything else."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model_store.errors import UnsupportedCheckpoint, shown


@dataclass(frozen=True)
class Kind:
    """The valid values of a field."""

    says: str
    fits: Callable[[Any], bool]  # Any: JSON's


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300 and math.isfinite(value)


def is_whole(value: Any) -> bool:
    return type(value) is int


def each(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A test for lists whose elements fit."""
    return lambda value: isinstance(value, list) and all(map(fits, value))


def above(least: float, most: float, says: str) -> Kind:
    """A number in (least, most]."""
    return Kind(says, lambda value: is_number(value) and least < value <= most)


SIZE = Kind("a whole number, 1 or more", lambda value: is_whole(value) and value >= 1)
SIZE_OR_NONE = Kind("a whole number, 0 or more", lambda value: is_whole(value) and value >= 0)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
TEXT = Kind("a text", lambda value: isinstance(value, str))
TEXTS = Kind("a list of texts", each(lambda value: isinstance(value, str)))
POSITIVE = above(0, 1e15, "a number above 0")
MULTIPLIER = Kind("a number from 0.00001 to 100000", lambda value: is_number(value) and 1e-5 <= value <= 1e5)
MULTIPLIERS = Kind("a list of numbers from 0.00001 to 100000", each(MULTIPLIER.fits))
EPSILON = above(0, 1, "a number above 0, and 1 at most")
BASE = above(1, 1e15, "a number above 1")
SHARE = Kind("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)
CAP = Kind("a number, not below 0", lambda value: is_number(value) and 0 <= value <= 1e15)
FACTORS = Kind("a list of numbers above 0", each(POSITIVE.fits))
FIELDS = Kind("fields and their values", lambda value: isinstance(value, dict))
TOKEN = Kind("the number of a token", lambda value: is_whole(value) and -1 <= value <= 1 << 31)
TOKENS = Kind("the number of a token, or several", lambda value: TOKEN.fits(value) or each(TOKEN.fits)(value))
PATTERN = Kind(
    "a list of kinds and how often they come",
    each(lambda row: isinstance(row, list) and len(row) == 2 and TEXTS.fits(row[0]) and SIZE_OR_NONE.fits(row[1])),
)
PERIOD = Kind(
    "a number of layers, or letters such as LLLG",
    lambda value: (
        (is_whole(value) and 0 <= value <= 1 << 12)
        or (isinstance(value, str) and bool(value) and value == "L" * (len(value) - 1) + "G")
    ),
)
SWITCHES = Kind("a list of 0 and 1", each(lambda value: is_whole(value) and value in (0, 1)))
LAST = Kind("the number of a layer, or -1", lambda value: is_whole(value) and -1 <= value <= 1 << 12)
LAYERS = Kind(
    "fields of layers by their numbers",
    lambda value: isinstance(value, dict) and all(isinstance(fields, dict) for fields in value.values()),
)
BASES = Kind("a list of 0 and numbers above 1", each(lambda value: value == 0 or BASE.fits(value)))
NUMBERS = Kind("a list of whole numbers", each(is_whole))
SHARES = Kind("a list of numbers, 0 or more and below 1", each(lambda value: SHARE.fits(value) and value < 1))
SIZE_OR_SIZES = Kind("a size, or one for each layer", lambda value: SIZE.fits(value) or each(SIZE.fits)(value))

NAMED: dict[str, Kind] = {
    "activation activation_function afn attn_type dense_act_fn feed_forward_proj hidden_act hidden_activation": TEXT,
    "hybrid_override_pattern mamba_hidden_act mlp_hidden_act rope_type topk_method type": TEXT,
    "architectures attention_layers layer_types layers_block_type mlp_layer_types": TEXTS,
    "attention_types": PATTERN,
    "alibi_bias_max attention_multiplier embedding_multiplier logit_scale logits_scaling": MULTIPLIER,
    "attention_in_multiplier attention_out_multiplier key_multiplier lm_head_multiplier": MULTIPLIER,
    "ssm_in_multiplier ssm_out_multiplier": MULTIPLIER,
    "mlp_multipliers ssm_multipliers": MULTIPLIERS,
    "residual_multiplier route_scale routed_scaling_factor scale_depth scale_emb softmax_scale": MULTIPLIER,
    "alpha attention_factor beta_fast beta_slow factor high_freq_factor long_mscale low_freq_factor": POSITIVE,
    "query_pre_attn_scalar short_mscale swiglu_alpha swiglu_limit": POSITIVE,
    "attn_logit_softcapping clip_qkv final_logit_softcapping mscale mscale_all_dim": CAP,
    "alibi attention_k_eq_v do_layer_norm_before enable_moe_block is_gated_act multi_query mup_enabled": FLAG,
    "new_decoder_architecture norm_topk_prob parallel_attn rope_interleave scale_attn_by_inverse_layer_idx": FLAG,
    "scale_attn_weights scale_decoder_outputs scale_embedding tie_word_embeddings truncate use_parallel_residual": FLAG,
    "altup_correct_scale attention_bias mamba_norm_before_gate mamba_proj_bias mamba_rms_norm mlp_bias": FLAG,
    "use_cla use_mixed_mlp_moe use_sliding_window": FLAG,
    "bos_token_id eos_token_id": TOKENS,
    "decoder_start_token_id pad_token_id": TOKEN,
    "layer_norm_eps layer_norm_epsilon mixer_rms_eps norm_eps norm_epsilon rms_norm_eps": EPSILON,
    "long_factor short_factor": FACTORS,
    "layer_rope_theta": BASES,
    "intermediate_size moe_intermediate_size moe_topk num_shared_expert": SIZE_OR_SIZES,
    "activation_sparsity_pattern": SHARES,
    "mamba_dt_rank time_step_rank": Kind(
        'a whole number, 1 or more, or "auto"', lambda value: SIZE.fits(value) or value == "auto"
    ),
    "attn_layer_indices full_attn_idxs mlp_only_layers": NUMBERS,
    "moe_layer_end_index": LAST,
    "no_rope_layers": SWITCHES,
    "sliding_window_pattern": PERIOD,
    "partial_rotary_factor rotary_pct router_jitter_noise": SHARE,
    "rope_local_base_freq rope_theta rotary_emb_base": BASE,
    "attn_config full_attention rope_parameters rope_scaling sliding_attention text_config": FIELDS,
    "per_layer_config": LAYERS,
}
"""The kinds of fields that are no sizes, by name."""

SIZES = {
    "num_hidden_layers n_layer n_layers num_layers num_decoder_layers": 1 << 12,
    "full_attention_interval global_attn_every_n_layers no_rope_layer_interval": 1 << 12,
    "attention_heads num_attention_heads n_head n_heads num_heads num_key_value_heads num_kv_heads n_head_kv": 1 << 13,
    "num_global_key_value_heads": 1 << 13,
    "head_dim attention_head_dim global_head_dim d_kv": 1 << 12,
    "hidden_size n_embd n_embed d_model intermediate_size n_inner d_ff ffn_dim ffn_hidden_size word_embed_proj_dim": 1
    << 20,
    "linear_num_key_heads linear_num_value_heads mamba_n_groups mamba_n_heads mamba_num_heads n_groups": 1 << 13,
    "linear_key_head_dim linear_value_head_dim mamba_d_state mamba_head_dim ssm_state_size state_size": 1 << 12,
    "conv_L_cache linear_conv_kernel_dim mamba_d_conv mamba_expand conv_kernel expand": 1 << 8,
    "attn_layer_period expert_layer_period": 1 << 12,
    "dim_model_base moe_intermediate_size shared_expert_intermediate_size": 1 << 20,
    "kv_lora_rank mamba_d_ssm q_lora_rank": 1 << 16,
    "qk_nope_head_dim qk_rope_head_dim v_head_dim": 1 << 12,
    "decoder_sparse_step moe_layer_interval": 1 << 12,
    "altup_num_inputs": 1 << 6,
    "moe_topk num_shared_expert": 1 << 12,
    "relative_attention_max_distance relative_attention_num_buckets": 1 << 16,
    "max_position_embeddings original_max_position_embeddings n_positions n_ctx seq_length max_seq_len": 1 << 22,
    "output_vocab_size vocab_size vocab_size_per_layer_input": 1 << 24,
}
"""The largest values accepted, several times those of published models, by fields' names."""
SIZES_OR_NONE = {
    "num_experts num_experts_per_tok top_k_experts num_local_experts n_routed_experts first_k_dense_replace": 1 << 12,
    "moe_num_experts moe_k moe_num_shared_experts moe_layer_start_index n_group topk_group": 1 << 12,
    "n_shared_experts num_shared_experts num_dense_layers": 1 << 12,
    "max_window_layers rotary_dim": 1 << 12,
    "attn_layer_offset expert_layer_offset": 1 << 12,
    "altup_active_idx": 1 << 6,
    "num_kv_shared_layers": 1 << 12,
    "hidden_size_per_layer_input": 1 << 16,
    "shared_intermediate_size": 1 << 20,
    "sliding_window window_size": 1 << 30,
}
"""The same for sizes that may be 0, meaning none."""

NESTED = {"attn_config", "full_attention", "rope_parameters", "rope_scaling", "sliding_attention", "text_config"}
"""Fields that contain fields."""
LIMITS = {field: limit for fields, limit in {**SIZES, **SIZES_OR_NONE}.items() for field in fields.split()}
EVERY = dict.fromkeys(SIZES, SIZE) | dict.fromkeys(SIZES_OR_NONE, SIZE_OR_NONE) | NAMED
KINDS = {field: kind for fields, kind in EVERY.items() for field in fields.split()}
NEVER_NULL = {
    "attention_multiplier", "attention_types", "embedding_multiplier", "first_k_dense_replace", "kv_lora_rank",
    "layer_norm_eps", "layer_norm_epsilon", "logit_scale", "logits_scaling", "max_window_layers",
    "moe_num_shared_experts", "multi_query", "n_shared_experts", "no_rope_layer_interval", "norm_eps", "norm_epsilon",
    "num_dense_layers", "qk_nope_head_dim", "qk_rope_head_dim", "query_pre_attn_scalar",
    "relative_attention_max_distance",
    "relative_attention_num_buckets", "residual_multiplier", "rms_norm_eps", "rope_local_base_freq", "rotary_dim",
    "seq_length", "text_config", "vocab_size", "window_size",
}  # fmt: skip
"""Fields for which null does not mean the default."""
NULL = {("mpt", "logit_scale")}
"""Types in which it does."""

SPELLINGS = (
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    ("hidden_size", "n_embd", "n_embed", "d_model"),
    ("max_position_embeddings", "n_positions", "max_seq_len"),
    ("d_kv",),
)
"""Fields one of which must be set."""


def check_fields(config: Mapping[str, Any], file: str = "config.json") -> None:
    """Raise UnsupportedCheckpoint for a field of the wrong kind or out of range."""
    for spellings in SPELLINGS:
        said = [field for field in spellings if field in config]
        if said and all(config[field] is None for field in said):
            raise wrong(said[0], None, "a whole number, 1 or more", file)
    for field, value in config.items():
        if value is None and field in NEVER_NULL and (config.get("model_type"), field) not in NULL:
            raise wrong(field, value, "something", file)
        if value is None:
            continue
        if field in KINDS and not KINDS[field].fits(value):
            raise wrong(field, value, KINDS[field].says, file)
        if field in NESTED:
            check_fields(value, file)
        for own in value.values() if field == "per_layer_config" else ():
            check_fields(own, file)


def refuse_sizes(config: Mapping[str, Any], file: str = "config.json") -> None:
    """Raise UnsupportedCheckpoint for an absurd size, before anything is made of that size."""
    for field, value in config.items():
        if isinstance(value, dict):
            refuse_sizes(value, file)
        elif isinstance(value, int | float) and field in LIMITS and not value <= LIMITS[field]:
            says = f"{field} in {file} is {shown(value)}, and no model has more than {LIMITS[field]:,}"
            raise UnsupportedCheckpoint(says)


def wrong(field: str, value: Any, kind: str, file: str) -> UnsupportedCheckpoint:  # Any: JSON's
    """The error for a field with a wrong value."""
    return UnsupportedCheckpoint(f"{field} in {file} is {shown(value)}, and should be {kind}; download the file again")
