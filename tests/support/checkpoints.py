"""Tiny random checkpoints, and where the tests and their files are."""

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers

import backends

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"
OFFLINE = ROOT / "tests" / "offline"
HERE = tuple(name for name in backends.NAMES if name != "coreml" and "cpu" in backends.get(name).devices())
"""Backends that run on this machine's processor; tests/backends/test_coreml.py interprets what Core ML is given."""
VOCABULARY = 320
LLAMA = {
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ENDLESS = ("--max-tokens", "30000", "--logit-bias", "0=-100")
"""Options with which a tiny checkpoint never ends by itself: its token 0 would be the end."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MakeCheckpoint = Callable[..., Path]


def random_llama() -> dict[str, np.ndarray]:
    """Random weights for the LLAMA configuration, by their published names."""
    random = np.random.default_rng(0)

    def matrix(*shape: int) -> np.ndarray:
        return random.normal(0, 0.2, shape).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(VOCABULARY, 64), "model.norm.weight": 1 + matrix(64)}
    for layer in range(2):
        prefix = f"model.layers.{layer}."
        attention = {"q": (64, 64), "k": (32, 64), "v": (32, 64), "o": (64, 64)}
        weights |= {f"{prefix}self_attn.{name}_proj.weight": matrix(*shape) for name, shape in attention.items()}
        ffn = {"gate": (96, 64), "up": (96, 64), "down": (64, 96)}
        weights |= {f"{prefix}mlp.{name}_proj.weight": matrix(*shape) for name, shape in ffn.items()}
        norms = ("input_layernorm", "post_attention_layernorm")
        weights |= {f"{prefix}{name}.weight": 1 + matrix(64) for name in norms}
    return weights


def write_tokenizer(folder: Path, size: int) -> None:
    """Write a tokenizer of `size` made-up words for a checkpoint that has none."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel({chr(97 + i % 26) * (1 + i // 26): i for i in range(size)}, "a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def write_safetensors(path: Path, weights: dict[str, np.ndarray]) -> None:
    path.write_bytes(safetensors(weights))


@cache
def llama_file() -> bytes:
    """The safetensors file of the random llama."""
    return safetensors(random_llama())


def safetensors(weights: dict[str, np.ndarray]) -> bytes:
    """A safetensors file: the header's length, the header, the tensors."""
    header, offset = {}, 0
    for name, weight in weights.items():
        header[name] = {"dtype": "F32", "shape": weight.shape, "data_offsets": (offset, offset + weight.nbytes)}
        offset += weight.nbytes
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *(weight.tobytes() for weight in weights.values())])
