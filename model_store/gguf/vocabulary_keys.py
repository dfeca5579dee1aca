"""Convert a tokenizer.json to the keys of a GGUF file.

This is the reverse of `vocabulary.py`; what that would read differently is refused.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model_store.files import optional_json, read_json
from model_store.gguf.reader import Header
from model_store.gguf.vocabulary import CHAT_TEMPLATE, COMPOSED, USUAL, WHOLE_WORDS, WORDS, tokenizer_files
from model_store.gguf.writer import Value
from model_store.tokenizers import sentencepiece
from model_store.tokenizers.chat_template import chat_template
from model_store.tokenizers.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED
from model_store.tokenizers.special_tokens import special_tokens
from model_store.tokenizers.tokenizer import SPACE

Part = dict[str, Any]  # Any: parsed JSON
UNSAID = {"trim_offsets", "add_prefix_space", "behavior", "invert"}
"""Fields of a pre-tokenizer that GGUF's names do not cover."""
KEY = "tokenizer.ggml."


class Unsaid(ValueError):
    """A tokenizer that the keys of a GGUF file cannot express."""


def vocabulary_keys(folder: Path, tokenizer: Path, *, architecture: str, rows: int) -> dict[str, Value]:
    """The keys for `tokenizer`, of the checkpoint in `folder`, with `rows` rows in the embedding."""
    content = read_json(tokenizer)
    model: Part = content["model"]
    if model.get("type", "BPE") != "BPE":
        raise Unsaid(f"tokenizers of the kind {model.get('type')} have no keys in GGUF files here (known: BPE)")
    pieces = bool(model.get("byte_fallback")) or SPACE in model["vocab"]
    tokens, kinds = texts_of(content, rows)
    keys: dict[str, Value] = {KEY + "model": "llama" if pieces else "gpt2", KEY + "tokens": tokens}
    keys |= sentence_pieces(folder, content, tokens, kinds) if pieces else byte_pairs(content, kinds, architecture)
    keys |= special_keys(folder, content, {text: place for place, text in enumerate(tokens)})
    if template := chat_template(folder):
        keys[CHAT_TEMPLATE] = template
    check(keys, content, architecture)
    return keys


def texts_of(content: Part, rows: int) -> tuple[list[str], np.ndarray]:
    """The text of each row of the embedding, and its kind."""
    texts = {number: text for text, number in content["model"]["vocab"].items()}
    added = {one["id"]: one for one in content.get("added_tokens") or ()}
    texts |= {number: one["content"] for number, one in added.items()}
    if beyond := [text for number, text in texts.items() if number >= rows]:
        raise Unsaid(f"the token {beyond[0]!r} is beyond the {rows:,} rows of the embedding")
    kinds = np.full(rows, NORMAL, np.int32)
    for number in range(rows):
        if number in added:
            kinds[number] = CONTROL if added[number].get("special") else USER_DEFINED
        elif number not in texts:
            kinds[number] = UNUSED
    return [texts.get(number, f"[PAD{number}]") for number in range(rows)], kinds


def byte_pairs(content: Part, kinds: np.ndarray, architecture: str) -> dict[str, Value]:
    """The keys for a tokenizer of GPT-2's kind."""
    model, words = content["model"], steps(content.get("pre_tokenizer"), "pretokenizers")
    if any(one.get("add_prefix_space") for one in words):
        raise Unsaid("its tokenizer puts a space before every text (add_prefix_space)")
    composed, whole = bool(normalizers(content, ("NFC",))), bool(model.get("ignore_merges"))
    wanted = [said(one) for one in words]
    names = [name for name, parts in WORDS.items() if [said(one) for one in parts] == wanted]
    names = [name for name in names if (name in WHOLE_WORDS) == whole]
    names = [name for name in names if (name in COMPOSED or architecture == "gptneox") == composed]
    if not names:
        raise Unsaid("its tokenizer cuts texts into words in a way that llama.cpp has no name for (pre_tokenizer)")
    usual = USUAL.get(architecture, "")
    merges = [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]
    return {
        KEY + "pre": usual if usual in names else names[0],
        KEY + "token_type": kinds,
        KEY + "merges": merges,
    }


def normalizers(content: Part, known: Sequence[str]) -> list[Part]:
    """The normalizers, which must be of known kinds."""
    found = steps(content.get("normalizer"), "normalizers")
    for one in found:
        if one["type"] not in known or "Regex" in one.get("pattern", {}):
            raise Unsaid(f"its tokenizer changes texts first ({one['type']}), for which GGUF files have no key")
    return found


def said(part: Part) -> Part:
    """The fields of a pre-tokenizer that GGUF's names cover."""
    return {name: value for name, value in part.items() if name not in UNSAID}


def sentence_pieces(folder: Path, content: Part, tokens: list[str], kinds: np.ndarray) -> dict[str, Value]:
    """The keys for a tokenizer of SentencePiece's kind; scores are the publisher's, or the order of merges."""
    model, unknown = content["model"], content["model"].get("unk_token")
    scores = np.zeros(len(tokens), np.float32)
    ranks: dict[str, int] = {}
    for place, merge in enumerate(model["merges"]):
        first, second = merge.split(" ", 1) if isinstance(merge, str) else merge
        ranks.setdefault(first + second, place)
    for place, token in enumerate(tokens):
        scores[place] = -ranks.get(token, len(ranks))
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            kinds[place] = BYTE
        elif token == unknown:
            kinds[place] = UNKNOWN
    if (folder / "tokenizer.model").is_file():
        own = sentencepiece.read(folder / "tokenizer.model").pieces
        for place, piece in enumerate(own[: len(tokens)]):
            scores[place] = piece.score if piece.text == tokens[place] else scores[place]
    changes = normalizers(content, ("Prepend", "Replace"))
    spaces = steps(content.get("pre_tokenizer"), "pretokenizers")
    prefix = any(one["type"] == "Prepend" for one in changes)
    prefix |= any(one["type"] == "Metaspace" and one.get("prepend_scheme") != "never" for one in spaces)
    keys: dict[str, Value] = {
        KEY + "scores": scores,
        KEY + "token_type": kinds,
        KEY + "add_space_prefix": prefix,
        KEY + "remove_extra_whitespaces": False,
    }
    if unknown in tokens:
        keys[KEY + "unknown_token_id"] = tokens.index(unknown)
    return keys


def special_keys(folder: Path, content: Part, ids: Mapping[str, int]) -> dict[str, Value]:
    """The keys for tokens that begin and end texts, and that end a reply."""
    before, after = framing(content)
    roles = special_tokens(folder)
    roles |= {"bos_token": before[0]} if before else {}
    roles |= {"eos_token": after[0]} if after else {}
    ends = optional_json(folder / "generation_config.json").get("eos_token_id")
    ends = [one for one in (ends if isinstance(ends, list) else [ends]) if isinstance(one, int)]
    config_end = optional_json(folder / "config.json").get("eos_token_id")
    end = ids.get(roles.get("eos_token", ""), next(iter(ends), config_end))
    keys: dict[str, Value] = {}
    for role, key in ("bos_token", "bos"), ("unk_token", "unknown"), ("pad_token", "padding"):
        if roles.get(role) in ids:
            keys[f"{KEY}{key}_token_id"] = ids[roles[role]]
    others = [one for one in ends if one != end]
    for key, number in zip(("eos", "eot", "eom"), (end, *others), strict=False):
        if isinstance(number, int):
            keys[f"{KEY}{key}_token_id"] = number
    keys |= {KEY + "add_bos_token": bool(before), KEY + "add_eos_token": bool(after)}
    return keys


def framing(content: Part) -> tuple[list[str], list[str]]:
    """The special tokens before and after every text, at most one of each."""
    before: list[str] = []
    after: list[str] = []
    for one in steps(content.get("post_processor"), "processors"):
        if one["type"] == "ByteLevel":
            continue
        if one["type"] != "TemplateProcessing":
            raise Unsaid(f"what its tokenizer puts around texts ({one['type']}) has no key in GGUF files")
        names = [next(iter(part.items())) for part in one["single"]]
        place = next(number for number, (kind, _) in enumerate(names) if kind == "Sequence")
        before += [part["id"] for _, part in names[:place]]
        after += [part["id"] for _, part in names[place + 1 :]]
    if len(before) > 1 or len(after) > 1:
        raise Unsaid("its tokenizer puts several special tokens before or after every text")
    return before, after


def steps(part: Part | None, name: str) -> list[Part]:
    """The steps of a field of tokenizer.json: one, several or none."""
    if not part:
        return []
    return list(part[name]) if part["type"] == "Sequence" else [part]


def check(keys: Mapping[str, Value], content: Part, architecture: str) -> None:
    """Raise if these keys would be read as another tokenizer."""
    given: dict[str, Any] = {"general.architecture": architecture, **keys}
    made = tokenizer_files(Header(Path("the export"), given, {}))["tokenizer.json"]
    if vocabulary(content) != vocabulary(made):
        raise Unsaid("its tokenizer's vocabulary would be another one in a GGUF file")
    own, theirs = merges(content), merges(made)
    same = own == theirs
    if keys[KEY + "model"] == "llama":  # scores belong to results, whatever pair makes them
        both = {*order(own)} & {*order(theirs)}
        same = [one for one in order(own) if one in both] == [one for one in order(theirs) if one in both]
    if not same:
        raise Unsaid("its tokenizer's merges would be others in a GGUF file")


def order(pairs: Sequence[tuple[str, ...]]) -> list[str]:
    """The results of merges, in order."""
    return list(dict.fromkeys("".join(pair) for pair in pairs))


def vocabulary(content: Part) -> dict[str, int]:
    """All tokens and ids, without padding of the embedding."""
    added = {one["content"]: one["id"] for one in content.get("added_tokens") or ()}
    return {text: number for text, number in (content["model"]["vocab"] | added).items() if text != f"[PAD{number}]"}


def merges(content: Part) -> list[tuple[str, ...]]:
    """The merges, without those of added tokens, which texts are never split into."""
    added = {one["content"] for one in content.get("added_tokens") or ()}
    pairs: Sequence[Any] = content["model"]["merges"]
    cut = [tuple(one.split(" ", 1)) if isinstance(one, str) else tuple(one) for one in pairs]
    return [pair for pair in cut if "".join(pair) not in added]
