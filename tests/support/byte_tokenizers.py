"""Tokenizers of bytes, of GPT-2's kind, for checkpoints without one."""

import json
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers


def write_tokenizer(folder: Path, rows: int, composed: bool) -> Path:
    """Write the files of a tokenizer with so many tokens, and return tokenizer.json."""
    tokens = [*map(chr, range(33, 127)), "Ġ", *(f"<{place}>" for place in range(rows))][: rows - 1]
    made = tokenizers.Tokenizer(models.BPE({one: place for place, one in enumerate(tokens)}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    if composed:
        made.normalizer = normalizers.NFC()
    made.add_special_tokens(["<|endoftext|>"])
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder / "tokenizer.json"
