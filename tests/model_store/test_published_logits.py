"""Published models, shrunk, against transformers' logits, below and beyond every length at which something changes."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backends
from backends import Session
from backends.reference import Session as ReferenceSession
from model_store import UnsupportedCheckpoint, families
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from support.checkpoints import HERE, write_safetensors
from support.published_models import (
    GOLDEN,
    PUBLISHED,
    SHORT,
    altered,
    is_first_of_its_kind,
    random_tensors,
    sample,
    shrunken,
    tokens_of,
)

TOLERANCE = 1e-4
"""Of the largest logit, in float32."""


@cache
def arrays() -> dict[str, np.ndarray]:
    """All that is golden, read once."""
    return dict(np.load(GOLDEN))


@cache
def golden(name: str) -> dict[str, Any]:
    """`short` and `long` logits (T, vocab), those of the last token for `altered` configs, and `facts` about them."""
    found = {part: arrays()[f"{name}/{part}"] for part in ("short", "long", "altered")}
    facts = json.loads(arrays()[f"{name}/facts"].tobytes())
    return {**found, "shapes": facts["shapes"], "labels": facts["altered"]}


def write(name: str, folder: Path) -> Path:
    """The shrunken model as a publisher's folder."""
    write_safetensors(folder / "model.safetensors", random_tensors(golden(name)["shapes"]))
    (folder / "config.json").write_text(json.dumps(shrunken(PUBLISHED[name])))
    return folder


def open_session(folder: Path, backend: str) -> Session:
    checkpoint, family, decoder = open_checkpoint(folder)
    weights = dict(Canonical(checkpoint, family, decoder))
    if backend == "reference":
        return ReferenceSession(decoder, weights)
    (folder / "lowered").mkdir()
    backends.get(backend).lower(decoder, weights, folder / "lowered", precision="f32")
    return backends.get(backend).load(folder / "lowered", device="cpu")


def near(logits: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(logits - expected).max() <= TOLERANCE * np.abs(expected).max())


OPENVINO = (
    "gpt2", "opt-350m", "bloom", "codegen-2B-multi", "pythia-1b", "tiny_starcoder_py", "biogpt", "phi-2",
    "Phi-3-mini-4k", "Phi-4-mini", "Llama-3.2-3B", "open_llama_3b", "Yarn-Mistral-7b-128k", "gemma-2-27b",
    "gemma-3-4b", "SmolLM3-3B-yarn", "flan-t5-small", "starcoder2-7b", "Qwen3-4B", "gpt-neo-1.3B",
)  # fmt: skip
"""One for each kind of arithmetic; OpenVINO takes long to start."""
CASES = [(name, "reference") for name in PUBLISHED]
CASES += [(name, "onnx") for name in PUBLISHED if is_first_of_its_kind(name)]
CASES += [(name, "openvino") for name in OPENVINO if "openvino" in HERE]


@pytest.mark.parametrize(("name", "backend"), CASES, ids=["-".join(case) for case in CASES])
def test_a_published_model_computes_what_transformers_does(name: str, backend: str, tmp_path: Path) -> None:
    tokens, expected = tokens_of(shrunken(PUBLISHED[name])), golden(name)
    session = open_session(write(name, tmp_path), backend)
    compare(session, tokens, expected["short"], expected["long"])


def compare(session: Session, tokens: np.ndarray, short: np.ndarray, long: np.ndarray) -> None:
    """Read up to the first border, go on token by token, and read all at once."""
    length = tokens.shape[1]
    if session.whole_prompts:
        assert near(read_all(session, tokens), long)
        return
    assert near(session.forward(tokens[:, :SHORT], last=SHORT)[0], short)
    for i in range(SHORT, length):
        assert near(session.forward(tokens[:, i : i + 1])[0], long[i : i + 1])
    session.rewind(0)
    assert near(read_all(session, tokens), long)


def read_all(session: Session, tokens: np.ndarray) -> np.ndarray:
    """The logits (T, vocab) of all tokens, which an encoder-decoder reads and writes."""
    if not session.whole_prompts:
        return np.asarray(session.forward(tokens, last=tokens.shape[1])[0])
    one_by_one = [tokens, *(tokens[:, i : i + 1] for i in range(tokens.shape[1]))]
    steps = [session.forward(part).copy() for part in one_by_one]
    return np.asarray(np.concatenate(steps, axis=1)[0])


CONTRADICTIONS = {
    "codet5p-220m": ('feed_forward_proj="silu"', 'dense_act_fn="silu"'),
    "gpt-neo-125m": ("attention_types shifted",),
    "umt5-small": ('feed_forward_proj="relu"',),
}
"""Models that say a thing twice, and what altered says another thing each time: refused."""
SEEN = [
    ("gpt2", "scale_attn_by_inverse_layer_idx=true"),
    ("gpt-j-6b", "rotary_dim*2"),
    ("gpt-neo-125m", "window_size+1"),
    ("gpt-neo-125m", "window_size-1"),
    ("pythia-1.4b", "rotary_pct-1/8"),
    ("pythia-1.4b", "rotary_emb_base*2"),
    ("biogpt", "scale_embedding=false"),
    ("Llama-3.2-1B", "rope_theta*2"),
    ("Llama-3.2-1B", "rope_scaling.factor*2"),
    ("Llama-3.2-1B", "rope_scaling.low_freq_factor*2"),
    ("Llama-3.2-1B", "rope_scaling.high_freq_factor*2"),
    ("Llama-3.2-1B", "rope_scaling.original_max_position_embeddings+1"),
    ("deepseek-coder-1.3b", "rope_scaling.factor*2"),
    ("Yarn-Mistral-7b-128k", "rope_scaling.factor*2"),
    ("Mistral-7B-v0.1", "sliding_window+1"),
    ("Mistral-7B-v0.1", "sliding_window-1"),
    ("SmolLM3-3B", "no_rope_layers shifted"),
    ("gemma-2-2b", "query_pre_attn_scalar*2"),
    ("gemma-2-2b", "attn_logit_softcapping*2"),
    ("gemma-3-1b", "rope_local_base_freq*2"),
    ("gemma-3-1b", "sliding_window_pattern+1"),
    ("phi-1_5", "partial_rotary_factor-1/8"),
    ("Phi-3-mini-4k", "sliding_window+1"),
    ("Phi-3-mini-128k", "rope_scaling.long_factor shifted"),
    ("Phi-4-mini", "rope_scaling.short_factor shifted"),
    ("Phi-4-mini", "rope_scaling.long_factor shifted"),
    ("Phi-4-mini", "original_max_position_embeddings+1"),
    ("starcoder2-3b", "norm_epsilon=0.2"),
    ("t5-v1_1-small", "relative_attention_max_distance*2"),
    ("umt5-small", "relative_attention_max_distance*2"),
    ("mpt-7b", "attn_config.clip_qkv=0.5"),
    ("openai-gpt", "layer_norm_epsilon=0.2"),
    ("Qwen2-VL-2B-Instruct", "rope_theta*2"),
    ("Mistral-Small-3.1-24B-Instruct-2503", "rope_theta*2"),
    ("Ministral-3-8B-Instruct-2512-BF16", "rope_parameters.factor*2"),
    ("OLMo-1.7-7B-hf", "clip_qkv=0.5"),
    ("Olmo-3-7B-Instruct", "sliding_window+1"),
    ("Olmo-3-7B-Instruct", "layer_types shifted"),
    ("Olmo-3-7B-Instruct", "rope_scaling.factor*2"),
    ("Apertus-8B-Instruct-2509", "rope_scaling.factor*2"),
    ("persimmon-8b-chat", "partial_rotary_factor-1/8"),
    ("nanochat-d32", "final_logit_softcapping*2"),
    ("Hunyuan-0.5B-Instruct", "rope_scaling.alpha*2"),
    ("gpt-neox-japanese-2.7b", "rotary_pct-1/8"),
    ("DeepSeek-V2-Lite-Chat", "rope_scaling.mscale_all_dim*2"),
    ("Moonlight-16B-A3B-Instruct", "routed_scaling_factor*2"),
    ("MiniCPM3-4B", "scale_depth*2"),
    ("MiniCPM3-4B", "scale_emb*2"),
    ("Phi-tiny-MoE-instruct", "router_jitter_noise*2"),
    ("xglm-564M", "scale_embedding=false"),
]
"""What must be seen, of which fields altered in which models."""
ALTERED = [name for name in PUBLISHED if is_first_of_its_kind(name)]


@pytest.mark.parametrize("name", ALTERED)
def test_each_field_altered_changes_what_it_changes_in_transformers(name: str, tmp_path: Path) -> None:
    expected, config = golden(name), shrunken(PUBLISHED[name])
    tokens, rows = tokens_of(config), dict(zip(expected["labels"], expected["altered"], strict=True))
    checkpoint, family, plain = open_checkpoint(write(name, tmp_path))
    unchanged, wrong = sample(expected["long"]), []
    refused = CONTRADICTIONS.get(name, ())
    for label, other in altered(config):
        if label not in rows:
            continue  # transformers cannot do it either
        if label in refused:
            with pytest.raises((UnsupportedCheckpoint, ValueError), match="contradict each other"):
                families.find(other).decoder(other)
            continue
        decoder, logits = families.find(other).decoder(other), unchanged
        if decoder != plain:
            weights = dict(Canonical(checkpoint, family, decoder))
            logits = sample(read_all(ReferenceSession(decoder, weights), tokens[:, : decoder.context_length]))
        if not near(logits, rows[label][: len(logits)]):
            wrong.append(label)
    assert not wrong


@pytest.mark.parametrize(("name", "label"), SEEN)
def test_the_comparison_fails_when_a_field_is_altered(name: str, label: str, tmp_path: Path) -> None:
    config, expected = shrunken(PUBLISHED[name]), golden(name)
    folder = write(name, tmp_path)
    (folder / "config.json").write_text(json.dumps(dict(altered(config))[label]))
    session, tokens = open_session(folder, "reference"), tokens_of(config)
    short = read_all(session, tokens[:, :SHORT])
    session.rewind(0)
    assert not near(short, expected["short"]) or not near(read_all(session, tokens), expected["long"])
