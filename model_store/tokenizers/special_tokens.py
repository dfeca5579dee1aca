"""Find the tokens that a checkpoint's tokenizer adds to its vocabulary, and the special ones' roles.

Publishers list them in tokenizer_config.json, special_tokens_map.json and added_tokens.json, or rely on the defaults of
a class of transformers, which is named in tokenizer_config.json or follows from the model's type.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_store.errors import UnsupportedCheckpoint
from model_store.files import optional_json

MODELS = {
    "BioGptTokenizer": "biogpt",
    "CodeGenTokenizer": "codegen phi",
    "GemmaTokenizer": "gemma gemma2 gemma3 gemma3_text",
    "GPT2Tokenizer": "gpt2 gpt_bigcode gpt_neo gptj opt starcoder2",
    "GPTNeoXTokenizer": "gpt_neox mpt",
    "LlamaTokenizer": "llama mistral phi3",
    "T5Tokenizer": "mt5 t5",
    "Qwen2Tokenizer": "qwen2 qwen2_5_vl qwen2_vl qwen3",
}
"""Model types by the class of their tokenizer, if the publisher names none."""
CLASSES = {kind: name for name, kinds in MODELS.items() for kind in kinds.split()}

END_OF_TEXT = dict.fromkeys(("unk_token", "bos_token", "eos_token"), "<|endoftext|>")
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
FRAME = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "BioGptTokenizer": {**FRAME, "sep_token": "</s>"},
    "CodeGenTokenizer": END_OF_TEXT,
    "GPT2Tokenizer": END_OF_TEXT,
    "GPTNeoXTokenizer": END_OF_TEXT,
    "GemmaTokenizer": {"unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"},
    "LlamaTokenizer": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    "Qwen2Tokenizer": {"unk_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    "RobertaTokenizer": {**FRAME, "sep_token": "</s>", "cls_token": "<s>", "mask_token": "<mask>"},
    "T5Tokenizer": {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"},
}
"""Roles and texts of a class's special tokens, if the publisher gives none."""
SAME = {
    "BartTokenizer": "RobertaTokenizer",
    "CodeLlamaTokenizer": "LlamaTokenizer",
    "Phi3Tokenizer": "LlamaTokenizer",
    "Starcoder2Tokenizer": "GPT2Tokenizer",
}
"""Classes that differ from another in nothing that matters here."""
UNDECLARED = ("", "PreTrainedTokenizer", "TokenizersBackend")
"""Classes that say nothing: tokenizer.json does, or else the model's type."""
LISTS = ("additional_special_tokens", "extra_special_tokens")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


@dataclass(frozen=True)
class AddedToken:
    """A token that is found before the vocabulary is used, with the fields of tokenizer.json."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = True


def tokenizer_class(folder: Path) -> str:
    """The class in transformers of a checkpoint's tokenizer; "" if unknown."""
    config = optional_json(folder / "config.json")
    declared = optional_json(folder / "tokenizer_config.json").get("tokenizer_class") or config.get("tokenizer_class")
    name = str(declared or "").removesuffix("Fast")
    if name in UNDECLARED and not (folder / "tokenizer.json").is_file():
        return CLASSES.get(str(config.get("model_type")), "")
    return SAME.get(name, name)


def special_tokens(folder: Path) -> dict[str, str]:
    """Roles and texts of a checkpoint's special tokens, such as {"bos_token": "<s>"}."""
    named = {role: content_of(entry) for role, entry in declared(folder).items() if role.endswith("_token")}
    roles = {**DEFAULTS.get(tokenizer_class(folder), {}), **named}
    return {role: content for role, content in roles.items() if isinstance(content, str)}


def declared(folder: Path) -> dict[str, Any]:
    """The fields of the publisher's files about special tokens, among others; later files take precedence."""
    return {**optional_json(folder / "special_tokens_map.json"), **optional_json(folder / "tokenizer_config.json")}


def content_of(entry: Any) -> Any:  # Any: whatever the publisher wrote
    """The text of a token given as a text or an object."""
    return entry.get("content") if isinstance(entry, dict) else entry


def added_tokens(folder: Path, vocabulary: Mapping[str, int], known: Sequence[AddedToken]) -> list[AddedToken]:
    """All added tokens by id, including those known from the model file.

    A special token without an id that the vocabulary does not know gets the next one.
    """
    flags, ids = dict[str, dict[str, bool]](), dict[str, int]()
    given_ids = list(numbered(folder))
    replaced = {number for _, number, _ in given_ids}
    for one in known:
        if one.id not in replaced:  # otherwise it was a placeholder
            flags[one.content], ids[one.content] = {"special": one.special}, one.id
    for content, number, entry in given_ids:
        if vocabulary.get(content, number) != number:
            raise UnsupportedCheckpoint(
                f"{folder} gives the token {content!r} two ids, {number} and {vocabulary[content]}; download it again"
            )
        flags[content], ids[content] = entry, number
    for content, entry, given in special_entries(folder):
        if content not in ids:
            if content not in vocabulary and not given:
                continue  # a default of the class that this checkpoint does not use
            following = max([len(vocabulary), *(number + 1 for number in ids.values())])
            ids[content] = vocabulary.get(content, following)
        flags[content] = {**entry, **flags.get(content, {}), "special": True}
    if len(set(ids.values())) != len(ids):
        raise UnsupportedCheckpoint(f"{folder} gives two added tokens the same id; download its tokenizer again")
    return sorted((AddedToken(ids[content], content, **flags[content]) for content in ids), key=lambda one: one.id)


def numbered(folder: Path) -> Iterator[tuple[str, int, dict[str, bool]]]:
    """Text, id and flags of tokens with published ids."""
    path = folder / "tokenizer_config.json"
    entries = optional_json(path).get("added_tokens_decoder")
    if isinstance(entries, dict) and entries:
        for number, entry in entries.items():
            content = content_of(entry)
            if not isinstance(content, str) or not content or not str(number).isdecimal():
                raise UnsupportedCheckpoint(f"{path} has no text or no id for the added token {number}; correct it")
            yield content, int(number), flags_of(entry) | {"special": bool(entry.get("special"))}
        return
    path = folder / "added_tokens.json"
    for content, number in optional_json(path).items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0 or not content:
            raise UnsupportedCheckpoint(f"{path} gives {content!r} the id {number!r}; correct it")
        yield content, number, {"special": False}


def special_entries(folder: Path) -> Iterator[tuple[str, dict[str, bool], bool]]:
    """Text and flags of the special tokens, and whether the publisher names them."""
    files = declared(folder)
    given = [entry for role, entry in files.items() if role in ROLES]
    for name in LISTS:
        listed = files.get(name)
        given += listed.values() if isinstance(listed, dict) else listed if isinstance(listed, list) else []
    for entry in given:
        if isinstance(content := content_of(entry), str) and content:
            yield content, flags_of(entry), True
    for role, content in DEFAULTS.get(tokenizer_class(folder), {}).items():
        if role not in files:
            yield content, {}, False


def flags_of(entry: Any) -> dict[str, bool]:  # Any: whatever the publisher wrote
    """An entry's flags about where its token is found."""
    return {name: bool(entry[name]) for name in FLAGS if name in entry} if isinstance(entry, dict) else {}
