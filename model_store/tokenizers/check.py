"""Refuse a tokenizer.json with which texts could grow, or searches run, without end.

The tokenizers library does what these files ask for, until memory ends, and the process with it. Publishers' files come
nowhere near these bounds; with them memory stays proportional to the file and the text.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model_store.errors import UnsupportedCheckpoint
from model_store.files import read_bytes
from model_store.tokenizers import regex
from model_store.tokenizers.sentencepiece import check_charsmap

GROWTH = 200
"""Bytes that one byte of a text may become; Unigram's character maps and ▁ for spaces come to 173."""
STEPS = 24
"""Most parts of a normalizer, a pre-tokenizer or a decoder."""
WORK = 512
"""Bytes that a pre-tokenizer's parts together may read for one byte of a text."""
FRAMING = "TemplateProcessing"
"""The post-processor that puts tokens around a text; after a second one the library has too many parts for a third."""
FRAME = 64
"""Most tokens around a text."""
WORD = 1_000
"""Most characters of a word for WordPiece, which takes their square."""
PIECES = 4_000_000
"""Most characters of all Unigram pieces, each about 300 bytes of memory. The largest have 2.5 million."""
ADDED = 2_000_000
"""Most characters of all added tokens, each about 80 bytes of memory."""
IDS = 1 << 24
"""Largest token id."""
AFFIX = 64
"""Most characters put before or after each piece."""
EDITS = ("Replace", "Prepend", "Strip", "Precompiled")
"""Normalizers that look at parts of a text; others work letter by letter."""
BYTE_LEVEL, SPACED = 2, 3
"""Bytes that one byte becomes in GPT-2's alphabet, and as ▁."""

KINDS = {
    "normalizers": "BertNormalizer ByteLevel Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend Replace Strip "
    "StripAccents",
    "pretokenizers": "BertPreTokenizer ByteLevel CharDelimiterSplit Digits FixedLength Metaspace Punctuation Split "
    "UnicodeScripts Whitespace WhitespaceSplit",
    "decoders": "BPEDecoder ByteFallback ByteLevel CTC Fuse Metaspace Replace Strip WordPiece",
    "processors": "BertProcessing ByteLevel RobertaProcessing TemplateProcessing",
}
"""Known parts; for an unknown name, the library picks any part with the same fields."""

Fields = Mapping[str, Any]


def check(path: Path) -> None:
    """Raise for the tokenizer.json at `path` if it asks for what no tokenizer needs."""
    try:
        check_content(json.loads(read_bytes(path)))
    except OSError as error:
        raise UnsupportedCheckpoint(f"cannot read {path}: {error.strerror}; check the file") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error) as error:
        known = isinstance(error, ValueError | KeyError)
        why = f"{error} is missing" if isinstance(error, KeyError) else error if known else "it is not a tokenizer"
        raise UnsupportedCheckpoint(f"cannot read {path}: {why}; download it again, or choose another model") from error


def check_content(content: Fields) -> None:
    """Raise for a tokenizer.json's content if no tokenizer needs it."""
    normal = growth(content.get("normalizer"), "normalizers") * growth(content.get("pre_tokenizer"), "pretokenizers")
    for grown, what in ((normal, "a text"), (growth(content.get("decoder"), "decoders"), "an answer")):
        if grown > GROWTH:
            raise ValueError(f"it makes more than {GROWTH} bytes of one byte of {what}")
    check_insertions(steps(content.get("normalizer"), "normalizers"))
    if normal * len(steps(content.get("pre_tokenizer"), "pretokenizers")) > WORK:
        raise ValueError(f"it reads each byte of a text more than {WORK} times")
    framing = [step for step in steps(content.get("post_processor"), "processors") if step["type"] == FRAMING]
    if len(framing) > 1:
        raise ValueError(f"it puts tokens around a text {len(framing)} times")
    for step in framing:
        check_frame(step)
    check_model(content["model"])
    check_added(content.get("added_tokens") or (), normal)


def steps(step: Fields | None, several: str) -> list[Fields]:
    """The parts of a step, or itself if it has none."""
    if step is None:
        return []
    if step["type"] != "Sequence":
        if step["type"] not in KINDS[several].split():
            raise ValueError(f"{str(step['type'])[:40]!r} is none of its {several}")
        return [step]
    found = [part for one in step[several] for part in steps(one, several)]
    if len(found) > STEPS:
        raise ValueError(f"it has {len(found):,} {several}")
    return found


def growth(step: Fields | None, several: str) -> float:
    """How many bytes may come of one byte."""
    grown = 1.0
    for part in steps(step, several):
        grown *= growth_of(part)
    return grown


def growth_of(step: Fields) -> float:
    """How many bytes a normalizer, a pre-tokenizer or a decoder may make of one byte."""
    match step["type"]:
        case "Replace":
            written = len(step["content"].encode())
            return max(1.0, written / least) if (least := shortest(step["pattern"])) else 1.0 + written
        case "Prepend":
            return 1 + len(step["prepend"].encode()) / 4
        case "Precompiled":
            return longest(step["precompiled_charsmap"])
        case "Split":
            shortest(step["pattern"])
        case "ByteLevel":
            return BYTE_LEVEL
        case "Metaspace":
            return max(SPACED, len(step.get("replacement", "").encode()))
        case "FixedLength" if not 0 < step.get("length", 1) < 1 << 31:
            raise ValueError(f"it cuts texts into parts of {step['length']}")
        case "Strip" if step.get("stop"):
            raise ValueError("it strips the ends of tokens, of which there may be nothing left")
        case "WordPiece" | "CTC" | "BPEDecoder":
            for name in ("prefix", "suffix", "pad_token", "word_delimiter_token"):
                check_affix(name, step.get(name))
            return BYTE_LEVEL
    return 1


def check_insertions(normalizers: Sequence[Fields]) -> None:
    """Raise for insertions of text into nothing, before a step that works letter by letter: the library panics."""
    for place, step in enumerate(normalizers):
        inserted = step["type"] == "Replace" and step["content"] and not shortest(step["pattern"])
        nothing = inserted or step.get("prepend") == ""
        if nothing and any(later["type"] not in EDITS for later in normalizers[place + 1 :]):
            raise ValueError(f"its normalizer has a {step['type']} of nothing")


def shortest(pattern: Fields) -> int:
    """The length in bytes of the shortest text that matches a pattern."""
    return len(pattern["String"].encode()) if "String" in pattern else regex.check(pattern["Regex"])


def longest(encoded: str) -> int:
    """The length in bytes of the longest replacement in SentencePiece's table."""
    table = base64.b64decode(encoded, validate=True)
    if not table:
        raise ValueError("its replacement table (precompiled_charsmap) is empty")
    check_charsmap(table)
    return max(1, *map(len, table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")))


def check_frame(step: Fields) -> None:
    """Raise for a post-processor with unknown tokens, or too many."""
    known = step["special_tokens"]
    known = known if isinstance(known, dict) else {one["id"]: one for one in known}
    for entry in known.values():
        if len(entry["ids"]) != len(entry["tokens"]):
            raise ValueError("its frame gives tokens too few or too many ids")
    for name in ("single", "pair"):
        parts = [part if isinstance(part, dict) else piece(part) for part in items(step.get(name))]
        missing = {part["SpecialToken"]["id"] for part in parts if "SpecialToken" in part} - set(known)
        if missing:
            raise ValueError(f"it puts {min(missing)!r} around a text, and does not say what that is")
        if name == "single" and any(part.get("Sequence", {}).get("id") == "B" for part in parts):
            raise ValueError("it puts a second text beside the only one")
        count = sum(len(known[part["SpecialToken"]["id"]]["ids"]) for part in parts if "SpecialToken" in part)
        if count > FRAME or len(parts) > FRAME:
            raise ValueError(f"it puts {max(count, len(parts)):,} tokens around a text")


def items(template: Any) -> list[Any]:  # Any: parsed JSON
    """The pieces of a frame, which may be written as one text."""
    return template.split() if isinstance(template, str) else list(template or ())


def piece(text: str) -> Fields:
    """Parse a frame's piece that is written as text, such as $A:0 or [CLS]:0."""
    name = text.partition(":")[0]
    return {"Sequence": {"id": name[1:]}} if name.startswith("$") else {"SpecialToken": {"id": name}}


def check_model(model: Fields) -> None:
    """Raise for a vocabulary whose pieces cannot be merged, or would take far more memory than the file."""
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token"):
        check_affix(name, model.get(name))
    if (most := model.get("max_input_chars_per_word")) and most > WORD:
        raise ValueError(f"it looks for pieces in words of {most:,} characters")
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        if vocabulary and max(vocabulary.values()) >= IDS:
            raise ValueError(f"it gives a token the id {max(vocabulary.values()):,}")
    elif sum(len(text) for text, _ in vocabulary) > PIECES:
        raise ValueError(f"its pieces have more than {PIECES:,} characters")
    if prefix := model.get("continuing_subword_prefix"):
        for merge in model.get("merges", ()):
            if not (merge.partition(" ")[2] if isinstance(merge, str) else merge[1]).startswith(prefix):
                raise ValueError(f"it merges {merge!r}, of which the second does not begin with {prefix}")


def check_added(tokens: Sequence[Fields], normal: float) -> None:
    """Raise for more added tokens than can be searched for, some of them as normalized."""
    count = sum(len(token["content"]) * (normal if token.get("normalized") else 1) for token in tokens)
    if count > ADDED:
        raise ValueError(f"its added tokens have {count:,.0f} characters")


def check_affix(name: str, text: Any) -> None:  # Any: parsed JSON
    """Raise for long texts put before or after each piece."""
    if isinstance(text, str) and len(text) > AFFIX:
        raise ValueError(f"its {name} has {len(text):,} characters")
