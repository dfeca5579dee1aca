"""Build full-size checkpoints of random weights, laid out as Hugging Face publishes them."""

import argparse
import json
from collections.abc import Iterator
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from models import END_OF_TEXT, MODELS, TIMED, Model, tensors

DTYPES = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16), "BF16": np.dtype(ml_dtypes.bfloat16)}
SHARD = 3_000_000_000
"""Bytes of tensors that one file holds at most."""


def build(model: Model, folder: Path, seed: int = 0) -> Path:
    """Write config.json, the weights and the tokenizer's files to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    end = model.vocab_size - 1
    write_json(folder / "config.json", model.config | {"bos_token_id": end, "eos_token_id": end})
    write_json(folder / "tokenizer.json", tokenizer(model.vocab_size))
    special = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **special})
    write_weights(folder, model, np.random.default_rng(seed))
    return folder


Entries = list[tuple[str, tuple[int, ...]]]
"""Names and shapes of tensors."""


def shards(model: Model) -> Iterator[Entries]:
    """The tensors of each file in turn."""
    entries: Entries = []
    size = 0
    for name, shape in tensors(model.config):
        bytes_of_one = prod(shape) * DTYPES[model.dtype].itemsize
        if entries and size + bytes_of_one > SHARD:
            yield entries
            entries, size = [], 0
        entries.append((name, shape))
        size += bytes_of_one
    yield entries


def write_weights(folder: Path, model: Model, random: np.random.Generator) -> None:
    """Write model.safetensors, or several files and their index."""
    files = list(shards(model))
    if len(files) == 1:
        write_safetensors(folder / "model.safetensors", files[0], DTYPES[model.dtype], random)
        return
    weight_map = {}
    for i, entries in enumerate(files, 1):
        path = folder / f"model-{i:05}-of-{len(files):05}.safetensors"
        write_safetensors(path, entries, DTYPES[model.dtype], random)
        weight_map.update({name: path.name for name, _ in entries})
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def write_safetensors(path: Path, entries: Entries, dtype: np.dtype[Any], random: np.random.Generator) -> None:
    """Write one file, one random tensor at a time."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in entries:
        end = offset + prod(shape) * dtype.itemsize
        kind = next(kind for kind, known in DTYPES.items() if known == dtype)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in entries:
            values = random.standard_normal(shape, np.float32)
            values *= 0.02
            if len(shape) == 1 and name.endswith(".weight"):  # a norm
                values += 1
            file.write(values.astype(dtype, copy=False).view(np.uint8).data)


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
    parser.add_argument("--models", nargs="+", choices=MODELS, default=TIMED)
    arguments = parser.parse_args()
    for name in arguments.models:
        folder = build(MODELS[name], arguments.folder / name)
        print(name, f"{sum(path.stat().st_size for path in folder.glob('*.safetensors')) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
