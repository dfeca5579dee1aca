"""Build full-size checkpoints of random weights, laid out as Hugging Face publishes them."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shape:
    """The sizes of one model, and how its weights are stored."""

    family: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    ffn_size: int
    vocab_size: int
    context_length: int
    dtype: str
    """As safetensors spells it: F32 or BF16."""


SHAPES = {
    "gpt2": Shape("gpt2", 12, 768, 12, 12, 3072, 50257, 1024, "F32"),
    "gpt2-medium": Shape("gpt2", 24, 1024, 16, 16, 4096, 50257, 1024, "F32"),
    "qwen2.5-0.5b": Shape("llama", 24, 896, 14, 2, 4864, 151936, 32768, "BF16"),
    "tiny-gpt2": Shape("gpt2", 2, 64, 4, 4, 256, 1024, 512, "F32"),
    "tiny-llama": Shape("llama", 2, 64, 4, 2, 128, 1024, 512, "BF16"),
}
FULL_SIZE = "gpt2", "gpt2-medium", "qwen2.5-0.5b"
"""The models that are timed; the last has the sizes of Qwen2.5-0.5B and no biases. The tiny ones are for tests."""

END_OF_TEXT = "<|endoftext|>"


def build(shape: Shape, folder: Path, seed: int = 0) -> Path:
    """Write config.json, model.safetensors and the tokenizer's files to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config(shape))
    write_json(folder / "tokenizer.json", tokenizer(shape.vocab_size))
    special = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT}
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": shape.context_length, **special},
    )
    write_weights(folder / "model.safetensors", shape, seed)
    return folder


def config(shape: Shape) -> dict[str, Any]:  # Any: JSON
    """What the publisher's config.json would say."""
    end = shape.vocab_size - 1
    common = {"vocab_size": shape.vocab_size, "bos_token_id": end, "eos_token_id": end, "tie_word_embeddings": True}
    if shape.family == "gpt2":
        return common | {
            "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
            "n_layer": shape.layers, "n_embd": shape.hidden_size, "n_head": shape.heads, "n_inner": shape.ffn_size,
            "n_positions": shape.context_length, "n_ctx": shape.context_length, "layer_norm_epsilon": 1e-5,
        }  # fmt: skip
    return common | {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "num_hidden_layers": shape.layers, "hidden_size": shape.hidden_size, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "head_dim": shape.hidden_size // shape.heads,
        "intermediate_size": shape.ffn_size, "max_position_embeddings": shape.context_length,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
    }  # fmt: skip


def tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name and shape of every tensor, in the publisher's layout."""
    return gpt2_tensors(shape) if shape.family == "gpt2" else llama_tensors(shape)


def gpt2_tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Conv1D matrices are (in, out)."""
    hidden = shape.hidden_size
    yield "wte.weight", (shape.vocab_size, hidden)
    yield "wpe.weight", (shape.context_length, hidden)
    for i in range(shape.layers):
        for name, size in ("attn.c_attn", (hidden, 3 * hidden)), ("attn.c_proj", (hidden, hidden)), \
                ("mlp.c_fc", (hidden, shape.ffn_size)), ("mlp.c_proj", (shape.ffn_size, hidden)):  # fmt: skip
            yield f"h.{i}.{name}.weight", size
            yield f"h.{i}.{name}.bias", size[1:]
        for norm in "ln_1", "ln_2":
            yield f"h.{i}.{norm}.weight", (hidden,)
            yield f"h.{i}.{norm}.bias", (hidden,)
    yield "ln_f.weight", (hidden,)
    yield "ln_f.bias", (hidden,)


def llama_tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Linear matrices are (out, in)."""
    hidden = shape.hidden_size
    kv_size = hidden // shape.heads * shape.kv_heads
    yield "model.embed_tokens.weight", (shape.vocab_size, hidden)
    for i in range(shape.layers):
        layer = f"model.layers.{i}"
        for name, rows in ("q", hidden), ("k", kv_size), ("v", kv_size), ("o", hidden):
            yield f"{layer}.self_attn.{name}_proj.weight", (rows, hidden)
        for name in "gate", "up":
            yield f"{layer}.mlp.{name}_proj.weight", (shape.ffn_size, hidden)
        yield f"{layer}.mlp.down_proj.weight", (hidden, shape.ffn_size)
        for norm in "input_layernorm", "post_attention_layernorm":
            yield f"{layer}.{norm}.weight", (hidden,)
    yield "model.norm.weight", (hidden,)


def write_weights(path: Path, shape: Shape, seed: int) -> None:
    """Write a safetensors file, one random tensor at a time."""
    width = {"F32": 4, "BF16": 2}[shape.dtype]
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, size in tensors(shape):
        end = offset + width * int(np.prod(size))
        header[name] = {"dtype": shape.dtype, "shape": size, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(seed)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, size in tensors(shape):
            values = random.standard_normal(size, np.float32) * np.float32(0.02)
            if "norm" in name or ".ln_" in name or name.startswith("ln_"):
                values += name.endswith(".weight")
            file.write(values.tobytes() if width == 4 else bfloat16(values))


def bfloat16(values: np.ndarray) -> bytes:
    """Round float32 to its upper half."""
    bits = values.view(np.uint32)
    bits += 0x8000
    return bits.view(np.uint16)[..., 1::2].tobytes()


def tokenizer(vocab_size: int) -> dict[str, Any]:  # Any: JSON
    """A byte-level BPE of exactly `vocab_size` tokens: the bytes, pairs of ASCII, pairs of pairs, end of text."""
    letters = byte_letters()
    ascii_letters = [letters[byte] for byte in range(32, 127)]
    pairs = list(product(ascii_letters, repeat=2))
    quads = product([a + b for a, b in pairs], repeat=2)
    merges = list(islice((*pairs, *islice(quads, vocab_size)), max(0, vocab_size - 257)))
    names = [*letters, *("".join(pair) for pair in merges), END_OF_TEXT]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": vocab_size - 1, "content": END_OF_TEXT, "special": True}
    return {
        "version": "1.0",
        "added_tokens": [end | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {name: i for i, name in enumerate(names)},
            "merges": [list(pair) for pair in merges],
        },
    }


def byte_letters() -> list[str]:
    """GPT-2's printable letter for each byte."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the checkpoints go, one folder each")
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=FULL_SIZE)
    arguments = parser.parse_args()
    for name in arguments.models:
        build(SHAPES[name], arguments.folder / name)
        print(name, f"{(arguments.folder / name / 'model.safetensors').stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
