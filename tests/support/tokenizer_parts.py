"""Parts of a tokenizer.json, as tests put them together."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

PIECES_OF_TEXT = ["<unk>", "a", "b", "c", "l", "e", " ", "▁", "Ġ", "h", "aa", "##b"]


Part = dict[str, Any]
"""Of a tokenizer.json."""


def replace(pattern: str, content: str) -> Part:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def searched(pattern: str) -> Part:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def normalizers(*parts: Part) -> Part:
    return {"normalizer": {"type": "Sequence", "normalizers": parts}}


def cut(*parts: Part) -> Part:
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": parts}}


def decoders(*parts: Part) -> Part:
    return {"decoder": {"type": "Sequence", "decoders": parts}}


def framed(single: Sequence[Part], special: Mapping[str, Part], pair: Sequence[Part] = ()) -> Part:
    return {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": pair,
            "special_tokens": special,
        }
    }


def special(name: str) -> Part:
    return {"SpecialToken": {"id": name, "type_id": 0}}


def sequence(name: str) -> Part:
    return {"Sequence": {"id": name, "type_id": 0}}


def known(name: str, ids: list[int]) -> dict[str, Part]:
    return {name: {"id": name, "ids": ids, "tokens": ["a"] * len(ids)}}


def added(*contents: str, **fields: bool) -> Part:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False) | fields
    return {"added_tokens": [{"id": 20 + i, "content": content, **flags} for i, content in enumerate(contents)]}


def table(units: bytes, texts: bytes) -> Part:
    data = len(units).to_bytes(4, "little") + units + texts
    return normalizers({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(data).decode()})


def model(**fields: Any) -> Part:  # Any: parsed JSON
    return {"model": fields}


def unit(label: int, offset: int, leaf: bool = False) -> bytes:
    """A unit of a Darts-clone trie."""
    return (offset << 10 | leaf << 8 | label).to_bytes(4, "little")


def trie(leaf: int) -> bytes:
    """One in which `a` leads to the text at `leaf`."""
    units = [unit(0, 256)] + [unit(i & 255 ^ 1, 0) for i in range(1, 768)]
    units[256 ^ ord("a")] = unit(ord("a"), 512 ^ 256 ^ ord("a"), leaf=True)
    units[512 ^ 256 ^ 256] = (1 << 31 | leaf).to_bytes(4, "little")
    return b"".join(units)


PLAIN = {"type": "BPE", "unk_token": "<unk>", "merges": [], "vocab": {text: i for i, text in enumerate(PIECES_OF_TEXT)}}
