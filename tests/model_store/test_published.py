"""Published config.json files, with all they leave out and spell in their own way, become the right decoders."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.decoder import Decoder
from model_store import families

PUBLISHED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "published.json").read_text())
"""What decides about the decoder in config.json of these models; LongRoPE's factors are made up."""

SIZES = {
    # layers, heads, key-value heads, elements of a head, hidden size, vocabulary, context, windows
    "gpt2": (12, 12, 12, 64, 768, 50257, 1024, {0}),
    "distilgpt2": (6, 12, 12, 64, 768, 50257, 1024, {0}),
    "gpt2-xl": (48, 25, 25, 64, 1600, 50257, 1024, {0}),
    "gpt-j-6b": (28, 16, 16, 256, 4096, 50400, 2048, {0}),
    "gpt-neo-125m": (12, 12, 12, 64, 768, 50257, 2048, {0, 256}),
    "gpt-neo-1.3B": (24, 16, 16, 128, 2048, 50257, 2048, {0, 256}),
    "pythia-1.4b": (24, 16, 16, 128, 2048, 50304, 2048, {0}),
    "starcoderbase-1b": (24, 16, 1, 128, 2048, 49152, 8192, {0}),
    "tiny_starcoder_py": (20, 12, 1, 64, 768, 49152, 8192, {0}),
    "gpt_bigcode-santacoder": (24, 16, 1, 128, 2048, 49280, 2048, {0}),
    "santacoder": (24, 16, 1, 128, 2048, 49280, 2048, {0}),
    "bloom-560m": (24, 16, 16, 64, 1024, 250880, 2048, {0}),
    "codegen-350M-mono": (20, 16, 16, 64, 1024, 51200, 2048, {0}),
    "biogpt": (24, 16, 16, 64, 1024, 42384, 1024, {0}),
    "opt-125m": (12, 12, 12, 64, 768, 50272, 2048, {0}),
    "opt-350m": (24, 16, 16, 64, 1024, 50272, 2048, {0}),
    "opt-1.3b": (24, 32, 32, 64, 2048, 50272, 2048, {0}),
    "TinyLlama-1.1B-Chat": (22, 32, 4, 64, 2048, 32000, 2048, {0}),
    "SmolLM2-135M": (30, 9, 3, 64, 576, 49152, 8192, {0}),
    "SmolLM3-3B": (36, 16, 4, 128, 2048, 128256, 65536, {0}),
    "Llama-3.2-1B": (16, 32, 8, 64, 2048, 128256, 131072, {0}),
    "Mistral-7B-v0.1": (32, 32, 8, 128, 4096, 32000, 32768, {4096}),
    "Mistral-7B-v0.3": (32, 32, 8, 128, 4096, 32768, 32768, {0}),
    "Qwen2.5-0.5B": (24, 14, 2, 64, 896, 151936, 32768, {0}),
    "Qwen2.5-Coder-1.5B": (28, 12, 2, 128, 1536, 151936, 32768, {0}),
    "Qwen3-0.6B": (28, 16, 8, 128, 1024, 151936, 40960, {0}),
    "gemma-2b": (18, 8, 1, 256, 2048, 256000, 8192, {0}),
    "gemma-2-2b": (26, 8, 4, 256, 2304, 256000, 8192, {0, 4096}),
    "gemma-3-1b": (26, 4, 1, 256, 1152, 262144, 32768, {0, 512}),
    "gemma-3-4b": (34, 8, 4, 256, 2560, 262208, 131072, {0, 1024}),
    "phi-1_5": (24, 32, 32, 64, 2048, 51200, 2048, {0}),
    "phi-2": (32, 32, 32, 80, 2560, 51200, 2048, {0}),
    "Phi-3-mini-4k": (32, 32, 32, 96, 3072, 32064, 4096, {2047}),
    "Phi-3-mini-128k": (32, 32, 32, 96, 3072, 32064, 131072, {262144}),
    "starcoder2-3b": (30, 24, 2, 128, 3072, 49152, 16384, {4096}),
    "granite-3.3-2b-instruct": (40, 32, 8, 64, 2048, 49159, 131072, {0}),
    "c4ai-command-r-v01": (40, 64, 64, 128, 8192, 256000, 8192, {0}),
    "c4ai-command-r7b-12-2024": (32, 32, 8, 128, 4096, 256000, 132096, {0, 4096}),
    "glm-4-9b-chat-hf": (40, 32, 2, 128, 4096, 151552, 131072, {0}),
    "GLM-4-9B-0414": (40, 32, 2, 128, 4096, 151552, 32768, {0}),
    "stablelm-2-1_6b": (24, 32, 32, 64, 2048, 100352, 4096, {0}),
    "EXAONE-4.0-1.2B": (30, 32, 8, 64, 2048, 102400, 65536, {0}),
    "EXAONE-4.0-32B": (64, 40, 8, 128, 5120, 102400, 131072, {0, 4096}),
    "ERNIE-4.5-0.3B-PT": (18, 16, 2, 128, 1024, 103424, 131072, {0}),
    "Seed-OSS-36B-Instruct": (64, 80, 8, 128, 5120, 155136, 524288, {0}),
    "helium-1-2b": (28, 16, 8, 128, 2048, 64000, 4096, {0}),
    "falcon-7b": (32, 71, 1, 64, 4544, 65024, 2048, {0}),
    "falcon-40b": (60, 128, 8, 64, 8192, 65024, 2048, {0}),
    "falcon-11B": (60, 32, 8, 128, 4096, 65024, 8192, {0}),
    "AFM-4.5B": (36, 20, 4, 128, 2560, 128004, 65536, {0}),
    "Nemotron-Mini-4B-Instruct": (32, 24, 8, 128, 3072, 256000, 4096, {0}),
    "vaultgemma-1b": (26, 4, 4, 256, 1152, 256000, 1024, {0, 512}),
    "cwm": (64, 48, 8, 128, 6144, 128256, 131072, {0, 8192}),
    "mpt-7b": (32, 32, 32, 128, 4096, 50432, 2048, {0}),
    "mt5-small": (8, 6, 6, 64, 512, 250112, 1024, {0}),
    "umt5-small": (8, 6, 6, 64, 512, 256384, 1024, {0}),
    "openai-gpt": (12, 12, 12, 64, 768, 40478, 512, {0}),
    "Qwen2-VL-2B-Instruct": (28, 12, 2, 128, 1536, 151936, 32768, {0}),
    "Qwen2.5-VL-3B-Instruct": (36, 16, 2, 128, 2048, 151936, 128000, {0}),
    "Mistral-Small-3.1-24B-Instruct-2503": (40, 32, 8, 128, 5120, 131072, 131072, {0}),
    "DeepSeek-V2-Lite-Chat": (27, 16, 16, 192, 2048, 102400, 163840, {0}),
    "Moonlight-16B-A3B-Instruct": (27, 16, 16, 192, 2048, 163840, 8192, {0}),
    "GLM-4.7-Flash": (47, 20, 20, 256, 2048, 154880, 202752, {0}),
    "Youtu-LLM-2B": (32, 16, 16, 192, 2048, 128256, 131072, {0}),
    "MiniCPM3-4B": (62, 40, 40, 96, 2560, 73448, 32768, {0}),
    "Phi-tiny-MoE-instruct": (32, 16, 4, 128, 4096, 32064, 4096, {2047}),
    "gpt-oss-20b": (24, 64, 8, 64, 2880, 201088, 131072, {0, 128}),
    "Ministral-3-8B-Instruct-2512-BF16": (34, 32, 8, 128, 4096, 131072, 16384, {0}),
    "OLMo-1B-hf": (16, 16, 16, 128, 2048, 50304, 2048, {0}),
    "OLMo-1.7-7B-hf": (32, 32, 32, 128, 4096, 50304, 4096, {0}),
    "OLMo-2-0425-1B-Instruct": (16, 16, 16, 128, 2048, 100352, 4096, {0}),
    "Olmo-3-7B-Instruct": (32, 32, 32, 128, 4096, 100278, 65536, {0, 4096}),
    "Apertus-8B-Instruct-2509": (32, 32, 8, 128, 4096, 131072, 65536, {0}),
    "persimmon-8b-chat": (36, 64, 64, 64, 4096, 262144, 16384, {0}),
    "nanochat-d32": (32, 16, 16, 128, 2048, 65536, 2048, {0}),
    "Hunyuan-0.5B-Instruct": (24, 16, 8, 128, 1024, 120818, 262144, {0}),
    "gpt-neox-japanese-2.7b": (32, 32, 32, 80, 2560, 32000, 2048, {0}),
    "Qwen3-VL-2B-Instruct": (28, 16, 8, 128, 2048, 151936, 262144, {0}),
    "xglm-564M": (24, 16, 16, 64, 1024, 256008, 2048, {0}),
}


def described(config: dict[str, Any]) -> Decoder:
    return families.find(config).decoder(config)


def test_every_published_config_has_its_sizes_here() -> None:
    assert SIZES.keys() == PUBLISHED.keys()


@pytest.mark.parametrize("name", SIZES)
def test_a_published_config_becomes_a_decoder_of_its_sizes(name: str) -> None:
    decoder = described(PUBLISHED[name])
    first, windows = decoder.layers[0], {layer.window for layer in decoder.layers}
    heads = first.heads, first.kv_heads, first.head_dim
    sizes = decoder.hidden_size, decoder.vocab_size, decoder.context_length
    assert (len(decoder.layers), *heads, *sizes, windows) == SIZES[name]


ACTIVATION = "activation_function", "hidden_activation", "hidden_act", "activation", "afn", "feed_forward_proj"
SILENT = (
    "Apertus-8B-Instruct-2509", "Ministral-3-8B-Instruct-2512-BF16", "Mistral-Small-3.1-24B-Instruct-2503",
    "Qwen3-VL-2B-Instruct", "bloom-560m", "falcon-40b", "falcon-7b", "gemma-3-4b", "mpt-7b", "umt5-small",
)  # fmt: skip
"""What does not say its activation, or not there."""


@pytest.mark.parametrize("name", [name for name in SIZES if name not in SILENT])
def test_the_activation_is_the_one_that_the_config_names(name: str) -> None:
    config = PUBLISHED[name]
    field = next(field for field in ACTIVATION if field in config)
    assert described({**config, field: "relu"}).activation == "relu"


SPELLINGS = ("rope_theta", "rope_scaling", "rotary_emb_base", "partial_rotary_factor", "rotary_pct")
ROTARY = [name for name, config in PUBLISHED.items() if set(SPELLINGS) & config.keys()]


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_positions_are_the_same_in_the_spelling_of_today(name: str) -> None:
    old = PUBLISHED[name]
    theta, scaling = old.get("rope_theta", old.get("rotary_emb_base")), old.get("rope_scaling") or {}
    new: dict[str, Any] = {"rope_theta": theta, "rope_type": scaling.get("type", "default"), **scaling}
    for field in "partial_rotary_factor", "rotary_pct":
        new |= {"partial_rotary_factor": old[field]} if field in old else {}
    if old["model_type"] in ("gemma3_text", "olmo3"):
        local = {"rope_type": "default", "rope_theta": old.get("rope_local_base_freq", theta)}
        new = {"full_attention": new, "sliding_attention": local}
    kept = {field: value for field, value in old.items() if field not in (*SPELLINGS, "rope_local_base_freq")}
    assert described({**kept, "rope_parameters": new}) == described(old)


ALIASES = {
    "gpt2": dict(n_embd="hidden_size", n_head="num_attention_heads", n_layer="num_hidden_layers")
    | dict(n_positions="max_position_embeddings"),
    "gpt-neo-125m": dict(num_heads="num_attention_heads", num_layers="num_hidden_layers"),
    "bloom-560m": dict(n_embed="hidden_size", num_attention_heads="n_head", n_layer="num_hidden_layers"),
}


@pytest.mark.parametrize("name", ALIASES)
def test_the_other_names_of_a_field_mean_the_same(name: str) -> None:
    renamed = {ALIASES[name].get(field, field): value for field, value in PUBLISHED[name].items()}
    assert described(renamed) == described(PUBLISHED[name])


def test_every_fourth_layer_of_smollm3_has_no_positions() -> None:
    said = PUBLISHED["SmolLM3-3B"]
    without = [layer.rope is None for layer in described(said).layers]
    assert without == [False, False, False, True] * 9
    unsaid = {field: value for field, value in said.items() if field not in ("no_rope_layers", "layer_types")}
    assert described(unsaid) == described(said)


def test_every_sixth_layer_of_gemma_3_sees_everything_and_turns_more_slowly() -> None:
    full, *others = reversed(described(PUBLISHED["gemma-3-4b"]).layers[:6])
    assert full.window == 0 and {attention.window for attention in others} == {1024}
    assert full.rope and others[0].rope
    assert full.rope.inverse_frequencies[0] == 1 / 8
    assert others[0].rope.inverse_frequencies[0] == 1


def test_layer_types_decide_where_they_are_given() -> None:
    for name in "gemma-2-2b", "gemma-3-1b":
        config = PUBLISHED[name]
        kinds = ["full_attention", "sliding_attention"] * 13
        windows = [layer.window for layer in described({**config, "layer_types": kinds}).layers]
        assert windows == [0, config["sliding_window"]] * 13


def test_windows_of_qwen_begin_where_the_config_says() -> None:
    config = PUBLISHED["Qwen2.5-0.5B"] | dict(use_sliding_window=True, max_window_layers=20)
    assert [layer.window for layer in described(config).layers] == [0] * 20 + [32768] * 4
    plain = described(PUBLISHED["Qwen2.5-0.5B"])
    assert replace(described(config), layers=plain.layers) == plain
