"""Negative controls: with any one feature changed, the reference no longer gives the golden logits.

Otherwise the golden values would prove nothing about that feature.
"""

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from backends.decoder import Clamped
from backends.reference import Session
from model_store.checkpoint import weights as transforms
from model_store.checkpoint.weights import Family, Transform
from model_store.families import (
    apertus,
    apertus1p5_text,
    codegen,
    deepseek_v2,
    falcon_h1,
    falcon_mamba,
    gemma3n_text,
    gemma4_text,
    gpt_oss,
    granitemoehybrid,
    jamba,
    lfm3,
    olmo_hybrid,
    qwen3_next,
)
from support.changed_models import (
    Change,
    attention,
    backwards,
    before_instead_of_after,
    decoder,
    experts,
    factor,
    first_queries,
    first_rows,
    first_steps,
    keep_the_last_two,
    kernel_backwards,
    keys_rolled,
    last_rows,
    naive_slopes,
    negated,
    norms_apart,
    ones,
    open_model,
    other_heads_share,
    others,
    plain,
    queries_alone,
    read,
    rotary,
    rows_backwards,
    state_as_read,
    truncated,
    turned,
    turning_faster,
    unbiased,
    unsharpened,
    weights,
    widened_before,
    window,
    with_embedding_as_head,
    without,
    without_last,
)
from support.golden_logits import CASES, RECURRENT, TOLERANCE, golden
from support.state_controls import DELTAS, MAMBAS, STATES

SEEN = 10 * TOLERANCE
"""The least error of the logits that a control must cause."""


WINDOWED = (
    "afmoe", "cohere2", "cwm", "exaone4-hybrid", "exaone_moe", "gemma2", "gemma3", "gemma3_text", "gemma3n_text",
    "gemma4_text", "gpt_neo", "gpt_oss", "granite_swa", "granitemoe_swa", "lfm3", "mellum", "ministral", "mistral",
    "mixtral", "olmo3", "phi3", "phimoe", "qwen2-window", "qwen3_moe-mixed", "smollm3", "starcoder2", "vaultgemma",
)  # fmt: skip
EPSILONS = {
    1e-3: ("biogpt", "olmo", "opt", "xglm"),
    1e-5: (
        "apertus", "arcee", "bloom", "codegen", "cohere", "cohere2", "cwm", "ernie4_5", "ernie4_5_moe", "exaone",
        "exaone4", "exaone_moe", "falcon", "glm4_moe", "gpt2", "granite_swa", "internlm3", "iquestcoder", "jais2",
        "mixtral", "olmoe", "phimoe", "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_neox_japanese", "gpt_oss", "gptj",
        "hunyuan_v1_dense", "nemotron", "nemotron_h", "olmo2", "olmo3", "persimmon", "phi", "phi3", "stablelm",
        "starcoder2", "afmoe", "bitnet", "hunyuan_v1_moe", "solar_open", "bamba",
    ),
    1e-6: (
        "gemma", "gemma3n_text", "gemma4_text", "granite", "granitemoe", "granitemoe_swa", "granitemoehybrid",
        "granitemoeshared", "hyperclovax", "llama", "mellum", "nanochat", "qwen2", "qwen2_moe", "qwen3_moe", "seed_oss",
        "smollm3", "vaultgemma", "dots1", "flex_olmo", "minimax_m2", "jamba", "sarvam_moe",
    ),
    1.5625e-7: ("glm", "glm4"),
    1e-8: ("helium",),
}  # fmt: skip
"""What the families would take that read another field: the first do not read it, the others have this default."""

SHARING = (
    "afmoe", "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe", "exaone_moe", "gemma4_text-experts", "glm4_moe",
    "glm4_moe_lite", "granitemoehybrid-experts", "granitemoeshared", "hunyuan_v1_moe", "qwen2_moe", "qwen3_5_moe_text",
    "qwen3_next",
)  # fmt: skip
LATENT = "deepseek_v2", "deepseek_v3", "minicpm3", "glm4_moe_lite", "youtu"
MIXTURES = (
    *SHARING, "flex_olmo", "gpt_oss", "gpt_oss-mxfp4", "granitemoe", "jamba-experts", "lfm2_moe", "minimax_m2",
    "mixtral", "olmoe", "phimoe", "phimoe-longrope", "qwen3_moe", "qwen3_moe-mixed",
)  # fmt: skip
"""Golden cases with experts; the first have some for all tokens."""


LATENTS: dict[str, Change] = {
    "their norm": weights(ones, "layers.*.kv_down_norm"),
    "what turns": weights(others, "layers.*.k_turning_proj"),
    "keys and values": weights(others, "layers.*.kv_up_proj"),
    "queries": weights(others, "layers.*.q_proj"),
    "where they come from": weights(others, "layers.*.kv_down_proj"),
    "their epsilon": weights(
        lambda weight: replace(weight, values=np.asarray(weight.values, np.float32) / 1000), "layers.*.kv_down_proj"
    ),
}
"""What must be seen of keys and values that are made of what heads share."""

CONTROLS: dict[str, tuple[str, Change]] = {
    # The decoder.
    "rms norm": ("llama", decoder(norm="layer")),
    "layer norm": ("gpt2", decoder(norm="rms")),
    **{f"epsilon of {case}": (case, decoder(epsilon=epsilon)) for epsilon, cases in EPSILONS.items() for case in cases},
    "silu": ("llama", decoder(activation="gelu")),
    "relu": ("opt", decoder(activation="gelu")),
    "squared relu": ("arcee", decoder(activation="relu")),
    "xielu": ("apertus", decoder(activation="relu2")),
    **{f"{what} of xielu": ("apertus", factor(place)) for place, what in enumerate(("square", "bend", "line"))},
    "exact gelu": ("gpt_neox", decoder(activation="gelu_tanh")),
    "gelu with tanh": ("gpt2", decoder(activation="gelu")),
    "gelu with tanh, gated": ("gemma", decoder(activation="gelu")),
    "parallel": ("gpt_neox", decoder(parallel=False)),
    "parallel under one norm": ("gptj", decoder(parallel=False)),
    "one after the other": ("gpt_neox-sequential_yarn", decoder(parallel=True)),
    "scaled embedding": ("gemma", decoder(embedding_scale=1.0)),
    **{
        f"scaled embedding of {case}": (case, decoder(embedding_scale=1.0))
        for case in ("afmoe", "biogpt", "falcon_h1", "granite", "xglm")
    },
    "scaled output": ("cohere", decoder(output_scale=1.0)),
    "scaled output of granite": ("granite", decoder(output_scale=1.0)),
    "parallel under one norm, of cohere": ("cohere", decoder(parallel=False)),
    "parallel in stablelm": ("stablelm-parallel", decoder(parallel=False)),
    "one after the other in stablelm": ("stablelm", decoder(parallel=True)),
    "parallel under two norms": ("falcon-grouped", decoder(parallel=False)),
    "one after the other in falcon": ("falcon-sequential", decoder(parallel=True)),
    "capped logits": ("gemma2", decoder(logit_softcap=0.0)),
    "capped logits of nanochat": ("nanochat", decoder(logit_softcap=0.0)),
    "queries, keys and values that are cut": ("olmo", decoder(qkv_clip=0.0)),
    "capped logits of gemma4_text": ("gemma4_text", decoder(logit_softcap=0.0)),
    "embeddings of each layer": ("gemma4_text", decoder(per_layer_size=0)),
    "scaled embeddings of each layer": ("gemma4_text", decoder(per_layer_scale=1.0)),
    "layer norms of olmo": ("olmo", decoder(norm="rms")),
    "gates that are cut off": ("gemma3n_text", attention(lambda each: {"cutoff": each.cutoff and 0.0})),
    "residuals side by side": ("gemma3n_text", decoder(residuals=1)),
    # Experts.
    **{f"routing of {case}": (case, weights(others, "layers.*.router")) for case in MIXTURES},
    **{f"one expert less of {case}": (case, experts(chosen=1)) for case in MIXTURES},
    "shares that are divided by their sum": ("qwen3_moe", experts(normalised=False)),
    **{
        f"shares of {case} as they are": (case, experts(normalised=True))
        for case in ("olmoe", "qwen2_moe", "qwen3_moe-mixed")
    },
    "scores by sigmoids": ("glm4_moe", experts(scores="softmax")),
    "shares of phimoe": ("phimoe", experts(scores="softmax")),
    "shares of phimoe, of those chosen alone": ("phimoe", experts(nearness=0.0)),
    "nearness of phimoe": ("phimoe-longrope", experts(nearness=0.02)),
    "scaled shares": ("glm4_moe", experts(scale=1.0)),
    "groups of experts": ("glm4_moe", experts(groups=1, chosen_groups=1)),
    "fewer groups of experts": ("glm4_moe", experts(chosen_groups=1)),
    **{
        f"choice of {case}": (case, without("layers.*.choice_bias"))
        for case in (
            "afmoe",
            "deepseek_v3",
            "ernie4_5_moe",
            "exaone_moe",
            "glm4_moe",
            "glm4_moe_lite",
            "lfm2_moe",
            "minimax_m2",
        )  # fmt: skip
    },
    "scores of afmoe": ("afmoe", experts(scores="softmax")),
    "scores of lfm2_moe": ("lfm2_moe", experts(scores="softmax")),
    "shares of lfm2_moe as they are": ("lfm2_moe", experts(normalised=False)),
    "scores of deepseek_v3": ("deepseek_v3", experts(scores="softmax")),
    "groups of deepseek_v3": ("deepseek_v3", experts(groups=1, chosen_groups=1)),
    **{f"scaled shares of {case}": (case, experts(scale=1.0)) for case in ("afmoe", "deepseek_v2", "deepseek_v3")},
    "shares of deepseek_v2 as they are": ("deepseek_v2", experts(normalised=True)),
    **{f"shared experts of {case}": (case, experts(shared=False)) for case in SHARING},
    **{
        f"{role} of gemma4_text-experts": ("gemma4_text-experts", weights(ones, f"layers.*.{role}"))
        for role in ("expert_scale", "router_norm", "experts_norm", "post_experts_norm", "post_shared_norm")
    },
    **{
        f"gate of what is shared of {case}": (case, without("layers.*.shared_gate"))
        for case in ("qwen2_moe", "qwen3_5_moe_text", "qwen3_next")
    },
    **{
        f"gate of gpt_oss, {what}": ("gpt_oss", experts(clamped=how))
        for what, how in {
            "as the others": None,
            "another factor": Clamped(1.702, 2.0),
            "another limit": Clamped(1.2, 7.0),
        }.items()
    },
    # Attention.
    "sinks": ("gpt_oss", without("layers.*.sinks")),
    "scale of the head": ("llama", attention(lambda each: {"scale": 1.0})),
    "scale of its own": ("gemma2", attention(lambda each: {"scale": each.head_dim**-0.5})),
    "scale of its own, of granite": ("granite", attention(lambda each: {"scale": each.head_dim**-0.5})),
    "no scale of gemma4_text": ("gemma4_text", attention(lambda each: {"scale": each.head_dim**-0.5})),
    "no scale": ("gpt_neo", attention(lambda each: {"scale": each.head_dim**-0.5})),
    "scale of each layer": ("gpt2-layer_scale", attention(lambda each: {"scale": 1.0})),
    "heads that share keys": ("llama", other_heads_share),
    "rotary positions": ("llama", attention(lambda each: {"rope": None})),
    "rotary positions on some layers": ("smollm3", rotary(500.0)),
    **{
        f"rotary positions on some layers of {case}": (case, rotary(500.0))
        for case in ("afmoe", "cohere2", "exaone4-hybrid")
    },
    **{f"rotary positions on a part in {case}": (case, rotary(500.0)) for case in ("glm", "glm4", "stablelm")},
    **{
        f"theta of {case}": (case, rotary(10_000.0))
        for case in ("apertus", "cohere", "ernie4_5", "falcon", "granite", "helium", "olmo", "olmo2")
    },
    "rotary positions, theta": ("llama", rotary(10_000.0)),
    "rotary positions on a quarter": ("gpt_neox", rotary(500.0)),
    "rotary positions on a half": ("phi", rotary(500.0)),
    "rotary positions on a share": ("phi3-partial", rotary(500.0)),
    "rotary positions on a part of some heads": ("gemma4_text", turned(turning_faster)),
    "keys of another layer": ("gemma4_text", attention(lambda each: {"kv_layer": each.kv_layer and each.kv_layer - 2})),
    "rotary positions, linear": ("llama-linear", plain),
    "rotary positions, llama3": ("llama-tied_scaled", plain),
    "rotary positions, yarn": ("llama-yarn", plain),
    "rotary positions, yarn of ministral3": ("ministral3", plain),
    "rotary positions, longrope": ("phi3-longrope", plain),
    "rotary positions, yarn of gpt_oss": ("gpt_oss", plain),
    "turns that are not rounded": ("gpt_oss", truncated),
    "amplitude of yarn": ("llama-yarn", turned(lambda each: replace(each, amplitude=1.0))),
    "amplitude of longrope": ("phi3-longrope", turned(lambda each: replace(each, amplitude=1.0))),
    "amplitude of phimoe": ("phimoe-longrope", turned(lambda each: replace(each, amplitude=1.2**0.5))),
    "two rotations": ("gemma3_text", rotary(500.0)),
    "two rotations of mellum": ("mellum", rotary(500.0)),
    "a rotation for each layer": ("granite_swa", rotary(500.0)),
    "two rotations, the scaled one": ("gemma3", rotary(10_000.0)),
    "norms behind the turn": ("hunyuan_v1_dense", attention(lambda each: {"qk_norm": "head"})),
    "stretched by alpha": ("hunyuan_v1_dense", rotary(500.0)),
    "norms over all heads": ("olmo2", norms_apart),
    "two rotations of olmo3": ("olmo3", rotary(500.0)),
    "turns the other way": ("nanochat", rotary(500.0)),
    "alibi": ("bloom", attention(lambda each: {"alibi": ()})),
    "alibi for three heads": ("bloom", attention(naive_slopes)),
    "capped scores": ("gemma2", attention(lambda each: {"softcap": 0.0})),
    **{
        f"window of {case}, {what}": (case, window(width))
        for case in WINDOWED
        for what, width in {"none": lambda _: 0, "one more": lambda w: w + 1, "one less": lambda w: w - 1}.items()
    },
    "window on some layers": ("gemma2", attention(lambda each: {"window": 6 - each.window})),
    **{f"latents of {case}, {what}": (case, change) for case in LATENT for what, change in LATENTS.items()},
    **{f"sharper scores of {case}": (case, attention(unsharpened)) for case in LATENT[:2]},
    "amplitude of yarn of glm4_moe_lite": ("glm4_moe_lite", turned(lambda each: replace(each, amplitude=1.0))),
    "rotary positions of minicpm3": ("minicpm3", attention(lambda each: {"rope": None})),
    # Weights.
    "learned positions": ("gpt2", without("position_embedding")),
    "waves": ("xglm", without("position_embedding")),
    "norm of the embedding": ("bloom", without("embedding_norm")),
    "norm of the embedding of nanochat": ("nanochat", without("embedding_norm")),
    "projected embedding, out": ("opt-post_norm", negated("project_out")),
    "projected embedding, in": ("opt-post_norm", negated("project_in")),
    "norm after the sum": ("opt-post_norm", before_instead_of_after),
    "normalised queries": ("qwen3", without("layers.*.q_norm")),
    "normalised queries and keys": ("gemma3_text", without("layers.*.[qk]_norm")),
    "values as they are": ("gemma4_text", without("layers.*.v_norm")),
    "scalars of layers": ("gemma4_text", without("layers.*.scalar")),
    **{
        f"{role} of gemma4_text": ("gemma4_text", weights(change, role))
        for role, change in {
            **dict.fromkeys(("per_layer_embedding", "per_layer_proj"), others),
            **dict.fromkeys(("layers.*.per_layer_gate", "layers.*.per_layer_out"), others),
            **dict.fromkeys(("per_layer_norm", "layers.*.post_per_layer_norm"), ones),
        }.items()
    },
    **{
        f"{role} of gemma3n_text": ("gemma3n_text", weights(change, role))
        for role, change in {
            **dict.fromkeys(("altup_proj", "altup_out", "layers.*.altup_router"), others),
            **dict.fromkeys(("layers.*.altup_prediction", "layers.*.altup_correction"), others),
            **dict.fromkeys(("layers.*.laurel_down", "layers.*.laurel_up"), others),
            **dict.fromkeys(("layers.*.altup_norm", "layers.*.laurel_norm"), ones),
        }.items()
    },
    "norm after attention": ("gemma2", without("layers.*.post_attention_norm")),
    "norm after attention of hyperclovax": ("hyperclovax", without("layers.*.post_attention_norm")),
    "norm after feed-forward": ("gemma2", without("layers.*.post_ffn_norm")),
    **{
        f"norm after {part} of {case}": (case, without(f"layers.*.post_{part}_norm"))
        for case in ("afmoe", "exaone4", "glm4", "lfm3", "olmo2")
        for part in ("attention", "ffn")
    },
    **{
        f"normalised queries of {case}": (case, without("layers.*.q_norm"))
        for case in ("afmoe", "apertus", "exaone4", "hunyuan_v1_dense", "lfm3", "nanochat", "olmo2", "persimmon")
    },
    "norm before the last matrix of attention": ("bitnet", weights(ones, "layers.*.attention_sub_norm")),
    "norm before the last matrix of a feed-forward": ("bitnet", weights(ones, "layers.*.ffn_sub_norm")),
    "squared relu of bitnet": ("bitnet", decoder(activation="relu")),
    "norm before feed-forward": ("llama", without("layers.*.ffn_norm")),
    "norm before feed-forward, side by side": ("gpt_neox", without("layers.*.ffn_norm")),
    "norm before attention": ("llama", without("layers.*.attention_norm")),
    "norm at the end": ("llama", without("norm")),
    "head of its own": ("llama", with_embedding_as_head),
    **{
        f"bias of {role}, {case}": (case, unbiased(f"layers.*.{role}"))
        for case, roles in {
            "gpt2": ("qkv_proj", "o_proj", "up_proj", "down_proj", "attention_norm", "ffn_norm"),
            **dict.fromkeys(("qwen2", "glm", "seed_oss", "stablelm"), ("qkv_proj",)),
            "falcon-grouped": ("qkv_proj", "o_proj", "up_proj", "down_proj"),
            "ernie4_5": ("qkv_proj", "o_proj", "gate_up_proj", "down_proj"),
            "llama": ("gate_up_proj", "o_proj", "down_proj"),
            "gptj": ("up_proj", "down_proj"),
            "persimmon": ("qkv_proj", "q_norm", "k_norm", "o_proj"),
            "gpt_neox_japanese": ("o_proj",),
            "deepseek_v3": ("kv_down_proj", "k_turning_proj", "q_down_proj", "o_proj"),
            "phimoe": ("qkv_proj", "o_proj", "attention_norm", "ffn_norm"),
            "gpt_oss": ("qkv_proj", "o_proj", "router", "experts.*.gate_up_proj", "experts.*.down_proj"),
            "opt-post_norm": ("attention_sum_norm", "ffn_sum_norm"),
            "lfm2-biases": ("in_proj", "convolution", "o_proj"),
            "granitemoehybrid-mamba": ("convolution",),
            "granitemoehybrid-biases": ("qkvz_proj", "rates_proj", "o_proj"),
            "jamba": ("convolution", "steps_proj"),
            "jamba-experts": ("in_proj", "o_proj"),
            "nemotron_h-biases": ("qkvz_proj", "rates_proj", "o_proj", "up_proj", "down_proj"),
        }.items()
        for role in roles
    },
    **STATES,
    "norm of what queries are made of": (
        "minicpm3",
        weights(ones, "layers.*.q_down_norm"),
    ),
    "bias of the head": ("gptj", unbiased("lm_head")),
    "bias of the head of phimoe": ("phimoe", unbiased("lm_head")),
    "bias of the last norm": ("gpt2", unbiased("norm")),
    "bias of the norm of the embedding": ("bloom", unbiased("embedding_norm")),
}
"""What is changed -> the golden case where that must be seen, and the change."""

TRANSFORMS: dict[Transform, dict[str, tuple[str, Transform | None]]] = {
    transforms.transpose: {"gpt2": ("o_proj", None)},
    transforms.plus_one: {"gemma": ("*", None), "gemma3_text": ("q_norm", None), "nemotron": ("*", None)},
    transforms.flattened: {case: ("convolution", kernel_backwards) for case in RECURRENT},
    jamba.steps_first: {"jamba": ("steps_down_proj", jamba.keys_alone)},
    jamba.keys_alone: {"jamba": ("keys_proj", jamba.queries_alone)},
    jamba.queries_alone: {"jamba": ("queries_proj", jamba.keys_alone)},
    falcon_mamba.scaled: {"falcon_mamba": ("keys_proj", None)},
    falcon_mamba.ones: {"falcon_mamba": ("keys_norm", lambda values, attention: np.full(len(values), 2.0, np.float32))},
    transforms.without_gates: {case: ("qkv_proj", first_queries) for case in DELTAS},
    transforms.gates_alone: {case: ("attention_gate", queries_alone) for case in DELTAS},
    olmo_hybrid.of_states: {"olmo_hybrid": ("ffn_norm*", lambda values, attention: values[::-1])},
    transforms.skip_two: {case: ("*", keep_the_last_two) for case in ("opt", "biogpt")},
    transforms.group_heads: {
        **{case: ("*", None) for case in ("bloom", "gpt_bigcode-multi_head", "gpt_neox", "persimmon")},
        **{case: ("*", None) for case in ("falcon-grouped", "falcon-sequential")},
    },
    transforms.halve_rotary: {
        "gptj": ("*", transforms.spread_rotary),
        **{case: ("*", None) for case in ("codegen", "cohere", "cohere2", "ernie4_5", "ernie4_5_moe")},
        **{case: ("*", None) for case in ("glm", "helium")},
    },
    transforms.spread_rotary: {
        **{case: ("*", None) for case in ("gpt_neox", "gpt_neox_japanese", "minimax_m2", "stablelm")},
        **{case: ("[qk]_norm*", None) for case in ("glm4_moe", "persimmon")},
        "phi": ("*", transforms.halve_rotary),
    },
    falcon_h1.times_attended: {"falcon_h1": ("o_proj", None)},
    falcon_h1.times_answered: {"falcon_h1": ("state_o_proj", None)},
    falcon_h1.times_gates: {"falcon_h1": ("gate_up_proj", None)},
    falcon_h1.times_parts: {"falcon_h1": ("qkvz_proj", None)},
    deepseek_v2.halve_neighbours: {case: ("*", None) for case in LATENT if case != "minicpm3"},
    deepseek_v2.spread_turning: {case: ("q_proj", None) for case in LATENT},
    deepseek_v2.expand: {case: ("kv_up_proj", keys_rolled) for case in LATENT},
    deepseek_v2.amplified: {case: ("q_down_proj*", None) for case in LATENT[1:4]},
    deepseek_v2.to_latents: {case: ("kv_down_proj", last_rows) for case in LATENT},
    deepseek_v2.to_turning: {case: ("k_turning_proj", first_rows) for case in LATENT},
    deepseek_v2.widened: {case: ("o_proj", widened_before) for case in LATENT},
    apertus.factors: {"apertus": ("*", None)},
    apertus1p5_text.of_text: {"apertus1p5_text": ("embedding", lambda values, attention: values[-96:])},
    gemma3n_text.of_text: {"gemma3n_text": ("embedding", rows_backwards)},
    gemma3n_text.by_size: {"gemma3n_text": ("altup_norm", None)},
    gemma3n_text.times_last: {"gemma3n_text": ("per_layer_gate", without_last)},
    gemma4_text.by_root: {"gemma4_text-experts": ("router_norm", None)},
    gemma4_text.halve_power: {"gemma4_text": ("per_layer_norm", None)},
    transforms.flat: {"ernie4_5_moe": ("choice_bias", backwards)},
    gpt_oss.gates_first: {"gpt_oss": ("experts.gate_up_proj", None), "gpt_oss-mxfp4": ("experts.gate_up_proj", None)},
    qwen3_next.parts_first: {"qwen3_next": ("qkvz_proj", None)},
    qwen3_next.rates_first: {"qwen3_next": ("rates_proj", None)},
    granitemoehybrid.queries_first: {case: ("qkvz_proj", state_as_read) for case in MAMBAS},
    granitemoehybrid.steps_alone: {case: ("rates_proj", first_steps) for case in MAMBAS},
    granitemoehybrid.channels_first: {case: ("convolution", None) for case in MAMBAS},
    codegen.order_qkv: {"codegen": ("*", None)},
}
"""How weights are changed while they are read -> the golden cases where that must be seen, and what is done instead."""
CONTROLS |= {
    f"{each.__name__} of {case}": (case, read({each: instead}, role))
    for each, cases in TRANSFORMS.items()
    for case, (role, instead) in cases.items()
}


@pytest.mark.parametrize("what", CONTROLS)
def test_without_this_feature_the_golden_logits_are_missed(what: str) -> None:
    case, change = CONTROLS[what]
    model = change(open_model(case))
    tokens, logits = golden(case)
    error = np.abs(Session(model.decoder, model.weights).forward(tokens, last=24) - logits).max()
    assert error > SEEN, f"an error of {error:.1e} would pass for rounding"


ROLES_OF_ALL = {"embedding", "qkv_proj", "o_proj", "up_proj", "gate_up_proj", "down_proj", "lm_head"}
SIZES = {"layers", "hidden_size", "vocab_size", "context_length", "heads", "kv_heads", "head_dim", "latent", "k_eq_v"}
SIZES |= {"gains", "gates", "recurrence"}
"""What no model runs without: another value does not fit the weights."""


def role(name: str) -> str:
    return name.rpartition(".")[2]


def changed_fields(before: Any, after: Any) -> set[str]:
    return {each.name for each in fields(before) if getattr(before, each.name) != getattr(after, each.name)}


def unusual_fields(*values: Any) -> set[str]:
    """Fields that do not have their default, in any of these."""
    return {each.name for value in values for each in fields(value) if getattr(value, each.name) != each.default}


def used_transforms(family: Family) -> Iterable[Transform]:
    sources = (*family.MODEL.values(), *family.LAYER.values())
    return (part for source in sources for part in transforms.transforms_of(source))


def test_every_feature_of_every_golden_case_has_a_control() -> None:
    controlled: set[str] = set()
    for case, change in CONTROLS.values():
        before = open_model(case)
        after = change(before)
        controlled |= changed_fields(before.decoder, after.decoder)
        for one, other in zip(before.decoder.layers, after.decoder.layers, strict=True):
            controlled |= changed_fields(one, other)
        for name, weight in before.weights.items():
            now = after.weights.get(name)
            controlled |= set() if now and now.values is weight.values else {role(name)}
            controlled |= set() if now and now.bias is weight.bias else {f"bias of {role(name)}"}
    present = set()
    for case in CASES:
        model = open_model(case)
        present |= unusual_fields(model.decoder) | unusual_fields(*model.decoder.layers)
        present |= {role(name) for name in model.weights} - ROLES_OF_ALL
        present |= {f"bias of {role(name)}" for name, weight in model.weights.items() if weight.bias is not None}
    assert not present - SIZES - controlled


def test_every_transform_has_a_control() -> None:
    used = {each for case in CASES for each in used_transforms(open_model(case).family)}
    assert used == TRANSFORMS.keys()
