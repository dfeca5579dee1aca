"""Published models, shrunk in sizes only, and random weights that the names of tensors decide."""

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parents[1]
PUBLISHED: dict[str, dict[str, Any]] = {
    name: config
    for file in ("published.json", "published_more.json")
    for name, config in json.loads((HERE / file).read_text("utf-8")).items()
}
"""What decides about the decoder in config.json of these models; LongRoPE's factors are made up."""
GOLDEN = HERE / "golden_published.npz"

VOCABULARY = 24
SHORT = 16
"""What the smallest length at which a model's arithmetic changes is shrunk to, the others in proportion."""
LONG = 36
"""Tokens that go beyond it, where the context does."""
GAIN = 1.4
"""Makes attention sharp enough that every position counts."""

HEADS = "num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"
HIDDEN = "hidden_size", "n_embd", "n_embed", "d_model"
HEAD_DIM = "head_dim", "d_kv"
LAYERS = "num_hidden_layers", "n_layer", "n_layers", "num_layers"
CONTEXT = "max_position_embeddings", "n_positions", "max_seq_len"
LENGTHS = (
    *CONTEXT,
    "n_ctx",
    "original_max_position_embeddings",
    "sliding_window",
    "sliding_window_size",
    "window_size",
)
TOKENS = "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "decoder_start_token_id"
FACTORS = "short_factor", "long_factor"
DEFAULTS = dict(num_attention_heads=8, num_key_value_heads=4, head_dim=256, max_position_embeddings=131072) | dict(
    vocab_size=262_208
)
"""Sizes that `text_config` of Gemma 3 leaves out."""
VISION = dict(
    hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14
) | dict(head_dim=8, depth=1, embed_dim=16, num_heads=2, deepstack_visual_indexes=[0], num_position_embeddings=16)
PERIODS = {
    "cohere2": 4,
    "cwm": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3_text": 6,
    "gpt_neo": 2,
    "gpt_oss": 2,
    "olmo3": 4,
    "smollm3": 4,
} | {"vaultgemma": 2}
"""Layers after which their kinds begin again, for those that have kinds."""
T5 = dict(relative_attention_num_buckets=8, relative_attention_max_distance=32, num_decoder_layers=3, n_positions=LONG)
"""Distances have buckets up to the largest; 36 tokens go beyond it."""

ENCODER_DECODERS = "t5", "mt5", "umt5"
"""Types that read all of a prompt before they write."""

Config = dict[str, Any]
"""The JSON of config.json."""


def shrunken(config: Config) -> Config:
    """A published config.json with small sizes, its proportions and all else as they are."""
    if "text_config" in config:
        text = shrunken({**(DEFAULTS if config["model_type"] == "gemma3" else {}), **config["text_config"]})
        own = config["vision_config"]
        vision = shrunken_vision(own, text["hidden_size"] if "out_hidden_size" in own else 0)
        return {**config, "text_config": text, "vision_config": vision, "mm_tokens_per_image": 4}
    small = dict(config)
    heads, kv_heads = shrunken_heads(config)
    head_dim = shrunken_head(size_of_head(config))
    share = heads * head_dim / (config[one_of(config, HEADS)] * size_of_head(config))
    hidden = max(16, round(config[one_of(config, HIDDEN)] * share))
    layers = 1 + PERIODS.get(config["model_type"], 1)
    small[one_of(config, HEADS)], small[one_of(config, HIDDEN)], small[one_of(config, LAYERS)] = heads, hidden, layers
    fields = {field: head_dim for field in HEAD_DIM} | {"num_key_value_heads": kv_heads, "vocab_size": VOCABULARY}
    fields |= {"num_kv_heads": kv_heads}
    fields |= {
        field: hidden * 3 // 2 for field in ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "ffn_hidden_size")
    }
    fields |= {"max_window_layers": round(config.get("max_window_layers", 0) * layers / config[one_of(config, LAYERS)])}
    fields |= {"word_embed_proj_dim": hidden * config.get("word_embed_proj_dim", 0) // config[one_of(config, HIDDEN)]}
    fields |= {"rotary_dim": config.get("rotary_dim", 0) * head_dim // size_of_head(config) // 2 * 2}
    fields |= {"num_local_experts": 6, "num_experts_per_tok": 2 if config["model_type"] == "phimoe" else 3}
    fields |= {"n_routed_experts": 6, "moe_intermediate_size": hidden, "kv_lora_rank": 20, "q_lora_rank": 24}
    fields |= {"qk_rope_head_dim": head_dim, "qk_nope_head_dim": 10, "v_head_dim": 12}
    fields |= {token: shrunken_token(config.get(token)) for token in TOKENS}
    small |= {field: value for field, value in fields.items() if config.get(field) is not None}
    for field in "layer_types", "no_rope_layers", "attention_layers":
        if config.get(field):
            small[field] = config[field][:layers]
    if config["model_type"] == "gpt_neo":
        small |= {
            "num_layers": 2,
            "attention_layers": config["attention_layers"][:2],
            "attention_types": [[["global", "local"], 1]],
        }
    if "vision_config" in config:
        small["vision_config"] = shrunken_vision(config["vision_config"], hidden)
    if config["model_type"] in ENCODER_DECODERS:
        return small | {field: value for field, value in T5.items() if field in config}
    return shrink_lengths(small, head_dim)


def shrink_lengths(config: Config, head_dim: int) -> Config:
    """The same with the smallest of its lengths at SHORT; factors for as many elements as a head has now."""
    spelling = "rope_parameters" if config.get("rope_parameters") else "rope_scaling"
    scaling = config.get(spelling)
    lengths = [where[name] for where in (config, scaling or {}) for name in LENGTHS if where.get(name)]
    unit = min(lengths, default=SHORT) / SHORT

    def shrink(fields: Config) -> Config:
        return {name: round(value / unit) if name in LENGTHS and value else value for name, value in fields.items()}

    config = shrink(config)
    if scaling:
        config[spelling] = scaling = shrink(scaling)
        if "mrope_section" in scaling:
            scaling["mrope_section"] = [2, 3, 3]
        turning = int(head_dim * config.get("partial_rotary_factor", 1.0)) // 2
        for name in FACTORS:
            if name in scaling:
                scaling[name] = scaling[name][:: len(scaling[name]) // turning][:turning]
    return config


def shrunken_vision(config: Config, hidden: int) -> Config:
    """What config.json says of the image encoder, which is not computed; Qwen's knows the language model's width."""
    small = {field: VISION.get(field, value) for field, value in config.items()}
    if hidden:
        small["out_hidden_size" if "out_hidden_size" in config else "hidden_size"] = hidden
    return small


def one_of(config: Config, names: tuple[str, ...]) -> str:
    """The spelling of a field that a config.json uses."""
    return next(name for name in names if name in config)


def size_of_head(config: Config) -> int:
    """Elements of a head, said or not."""
    said = next((config[name] for name in HEAD_DIM if config.get(name)), None)
    return int(said or config[one_of(config, HIDDEN)] // config[one_of(config, HEADS)])


def shrunken_head(head_dim: int) -> int:
    """16 elements; where the size is no multiple of 16, again one that is none."""
    return 16 if head_dim % 16 == 0 else head_dim if head_dim < 16 else head_dim // 5


def shrunken_heads(config: Config) -> tuple[int, int]:
    """Few heads, and key-value heads in proportion."""
    heads = int(config[one_of(config, HEADS)])
    kv_heads = config.get("num_key_value_heads") or config.get("num_kv_heads") or heads
    if (
        (config.get("multi_query") and not config.get("new_decoder_architecture"))
        or config.get("attention_head_type")
        or kv_heads == 1
    ):
        return min(heads, 4), 1
    if config["model_type"] == "codegen":
        return 4, 4  # its projection is laid out for four processors
    if kv_heads == heads:
        return (2, 2) if heads & (heads - 1) == 0 else (3, 3)  # ALiBi's slopes differ in kind
    ratio = heads // math.gcd(heads, kv_heads)
    return (2 * ratio, 2) if ratio <= 4 else (ratio, 1)


def shrunken_token(token: Any) -> Any:  # Any: a number, several, or null
    """A token of the small vocabulary."""
    if isinstance(token, list):
        return [shrunken_token(each) for each in token]
    return None if token is None else min(token, VOCABULARY - 1)


def context_of(config: Config) -> int:
    """The context of a shrunken model, as long as is needed."""
    text = config.get("text_config", config)
    scaling = text.get("rope_parameters") or {}
    ends = [scaling["original_max_position_embeddings"]] if "llama_4_scaling_beta" in scaling else []
    return int(min([LONG, *ends, *(text[name] for name in CONTEXT if name in text)]))


def tokens_of(config: Config) -> np.ndarray:
    """Random tokens (1, T) from before the first border to beyond it, or to the end of the context."""
    return np.random.RandomState(7).randint(0, VOCABULARY, (1, context_of(config))).astype(np.int64)


def sample(logits: np.ndarray) -> np.ndarray:
    """One logit of each token, another one each time: enough to tell whether anything changed."""
    places = np.arange(len(logits))
    return np.asarray(logits[places, places % VOCABULARY])


def random_tensors(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Values for tensors, the same whenever their names and shapes are, and with every release of NumPy."""
    return {name: random_tensor(name, tuple(shape)) for name, shape in shapes.items()}


@cache
def random_tensor(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The values of one tensor."""
    if name.endswith("act_fn.eps"):
        return np.float32(-1e-6) * np.ones(shape, np.float32)
    random = np.random.RandomState(zlib.crc32(name.encode()))
    values = np.asarray(random.standard_normal(shape), np.float32)
    deviation = GAIN / math.sqrt(shape[-1]) if len(shape) == 2 else 0.1
    if "Attention.q." in name:
        deviation /= 4  # T5 does not scale its scores
    is_scale = len(shape) == 1 and name.endswith("weight")
    return np.asarray(values * np.float32(deviation) + np.float32(is_scale))


NESTED = "rope_scaling", "rope_parameters", "attn_config"
"""Fields of which each field is altered."""
ARITHMETIC = {
    "activation", "activation_function", "afn", "alpha", "attention_multiplier", "attention_types", "attn_factor",
    "attn_logit_softcapping", "clip_qkv", "dense_act_fn", "embedding_multiplier", "factor", "feed_forward_proj",
    "final_logit_softcapping", "hidden_act", "hidden_activation", "high_freq_factor", "layer_norm_eps",
    "layer_norm_epsilon", "layer_types", "logit_scale", "logits_scaling", "long_factor", "low_freq_factor",
    "max_window_layers", "no_rope_layer_interval", "no_rope_layers", "norm_eps", "norm_epsilon",
    "original_max_position_embeddings", "partial_rotary_factor", "query_pre_attn_scalar",
    "relative_attention_max_distance", "residual_multiplier", "rms_norm_eps", "rope_local_base_freq",
    "rope_scaling", "rope_theta", "rotary_dim", "rotary_emb_base", "rotary_pct", "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights", "scale_embedding", "short_factor", "sliding_window", "sliding_window_pattern",
    "dim_model_base", "mscale", "mscale_all_dim", "routed_scaling_factor", "router_jitter_noise", "scale_depth",
    "scale_emb", "softmax_scale", "swiglu_alpha", "swiglu_limit", "truncate",
    "use_parallel_residual", "use_sliding_window", "window_size",
}  # fmt: skip
"""Fields that change the arithmetic and no shape, in some family or other."""
EXTRA: Config = {
    "partial_rotary_factor": 0.5, "rotary_pct": 0.5, "rotary_dim": 4, "rope_theta": 300.0, "sliding_window": 10,
    "attn_logit_softcapping": 2.0, "final_logit_softcapping": 2.0, "query_pre_attn_scalar": 3, "rms_norm_eps": 0.2,
    "layer_norm_eps": 0.2, "layer_norm_epsilon": 0.2, "norm_epsilon": 0.2, "scale_attn_weights": False,
    "scale_attn_by_inverse_layer_idx": True, "feed_forward_proj": "relu", "use_parallel_residual": False,
    "use_sliding_window": True, "hidden_act": "relu", "activation_function": "relu", "hidden_activation": "relu",
    "scale_embedding": False, "rope_scaling": dict(rope_type="linear", factor=3.0),
}  # fmt: skip
"""Fields with a value that any config.json may get, whether its family knows it or not."""


def altered(config: Config) -> Iterator[tuple[str, Config]]:
    """The config.json with one field after the other changed: what was changed, and the result."""
    if "text_config" in config:
        for label, text in altered(config["text_config"]):
            yield label, {**config, "text_config": text}
        return
    for field, value in {**{field: None for field in EXTRA}, **config}.items():
        for label, change in changes(field, value):
            yield label, {**config, field: change}
    for within in NESTED:
        fields = config.get(within) or {}
        for field, value in fields.items():
            for label, change in changes(field, value):
                yield f"{within}.{label}", {**config, within: {**fields, field: change}}


def changes(field: str, value: Any) -> Iterator[tuple[str, Any]]:  # Any: config.json's
    """Other values for a field."""
    if field not in ARITHMETIC or isinstance(value, dict):
        return
    if field == "clip_qkv":
        yield "clip_qkv=0.5", 0.5
    elif value is None or isinstance(value, str):
        other = "silu" if value == "relu" else EXTRA.get(field)
        if other is not None:
            yield f"{field}={json.dumps(other)}", other
    elif isinstance(value, bool):
        yield f"{field}={json.dumps(not value)}", not value
    elif isinstance(value, list):
        yield f"{field} shifted", [*value[1:], value[0]] if field != "attention_types" else [[["local", "global"], 1]]
    elif field in LENGTHS or field in ("no_rope_layer_interval", "sliding_window_pattern", "max_window_layers"):
        yield f"{field}+1", value + 1
        yield f"{field}-1", value - 1
    elif field in ("partial_rotary_factor", "rotary_pct"):
        yield f"{field}-1/8", value - 0.125  # a pair of a head of 16
    elif "eps" in field:
        yield f"{field}=0.2", 0.2
    else:
        yield f"{field}*2", value * 2


def is_first_of_its_kind(name: str) -> bool:
    """Whether no model before this one says the same fields, so that each kind of config.json is altered once."""
    return next(other for other in PUBLISHED if kind_of(other) == kind_of(name)) == name


@cache
def kind_of(name: str) -> tuple[Any, ...]:  # Any: of strings
    """What tells how a config.json is read: the type and the fields that say something."""
    config = PUBLISHED[name]
    text = config.get("text_config", config)
    scaling = text.get("rope_scaling") or {}
    said = {field for field in ARITHMETIC if text.get(field) is not None} | {*scaling}
    head_dim = shrunken_head(size_of_head({**DEFAULTS, **text} if "text_config" in config else config))
    return config["model_type"], frozenset(said), scaling.get("type", scaling.get("rope_type")), head_dim
