"""Convert vocabularies to tokenizer.json: vocab.json and merges.txt, or SentencePiece.

The result is that of transformers' converters (convert_slow_tokenizer.py there), written as JSON, so that the
tokenizers library is needed only to use it.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from model_store.errors import UnsupportedCheckpoint
from model_store.files import optional_json
from model_store.tokenizers import sentencepiece
from model_store.tokenizers.merges import BYTE_PAIRS, byte_pair_encoding
from model_store.tokenizers.sentencepiece import CONTROL, NORMAL, UNUSED, USER_DEFINED, Piece, SentencePiece
from model_store.tokenizers.special_tokens import AddedToken, added_tokens, special_tokens, tokenizer_class

REVISION = 1
"""Raised when conversion changes, so that earlier results are made again."""
SPACE = "▁"
"""The space in SentencePiece's pieces."""
SENTINELS = 100
"""How many <extra_id_0>, <extra_id_1>, ... T5 has, if the publisher does not say."""
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

Part = dict[str, Any]
"""A part of tokenizer.json, whose fields depend on its "type"."""


@dataclass(frozen=True)
class Parts:
    """A tokenizer.json without its added tokens."""

    model: Part
    decoder: Part
    normalizers: tuple[Part, ...] = ()
    pre_tokenizers: tuple[Part, ...] = ()
    known: tuple[AddedToken, ...] = ()
    """Tokens that the model file marks itself."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Special tokens before and after every text."""


def convert(folder: Path) -> Part:
    """Convert the vocabulary in `folder` to the content of tokenizer.json."""
    parts = find(folder)(folder)
    vocabulary = ids_of(parts.model)
    added = added_tokens(folder, vocabulary, parts.known)
    enter(parts.model, vocabulary, added, folder)
    return assemble(parts, added, folder)


def assemble(parts: Parts, added: Sequence[AddedToken], source: Path) -> Part:
    """Assemble a tokenizer.json; `source` is for messages."""
    ids = ids_of(parts.model) | {one.content: one.id for one in added}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [asdict(one) for one in added],
        "normalizer": sequence("normalizers", parts.normalizers),
        "pre_tokenizer": sequence("pretokenizers", parts.pre_tokenizers),
        "post_processor": frame(parts.before, parts.after, ids, source),
        "decoder": parts.decoder,
        "model": parts.model,
    }


def find(folder: Path) -> Callable[[Path], Parts]:
    """The function that converts the tokenizer of the checkpoint in `folder`."""
    name = tokenizer_class(folder)
    if name not in KINDS:
        raise UnsupportedCheckpoint(
            f"{folder} has no tokenizer.json, and of a {name or 'tokenizer without a class'} none can be made; "
            "save the model's fast tokenizer there"
        )
    files, make = KINDS[name]
    for file in files:
        if not (folder / file).is_file():
            raise UnsupportedCheckpoint(
                f"{folder} has neither tokenizer.json nor {file}, of which a {name} is made; "
                "download it, or save the model's fast tokenizer there"
            )
    return make


def letters(*, prefix: bool = False, words: bool = True) -> Part:
    """UTF-8 bytes as letters, within GPT-2's words or within words found before."""
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": words}


def split(pattern: str) -> Part:
    """Split where a regular expression matches."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def byte_level(folder: Path) -> Parts:
    """GPT-2 and its like: words of UTF-8 bytes."""
    settings, roles = optional_json(folder / "tokenizer_config.json"), special_tokens(folder)
    return Parts(
        byte_pair_encoding(folder),
        letters(prefix=True),
        pre_tokenizers=(letters(prefix=bool(settings.get("add_prefix_space"))),),
        before=(roles.get("bos_token", ""),) if settings.get("add_bos_token") else (),
        after=(roles.get("eos_token", ""),) if settings.get("add_eos_token") else (),
    )


def gpt_neox(folder: Path) -> Parts:
    """Pythia: as GPT-2, in Unicode's composed form."""
    return replace(byte_level(folder), normalizers=({"type": "NFC"},))


def qwen2(folder: Path) -> Parts:
    """Qwen: its own words, in which each digit is one."""
    parts = byte_level(folder)
    words = split(QWEN_WORDS), {**parts.pre_tokenizers[0], "use_regex": False}
    return replace(parts, normalizers=({"type": "NFC"},), pre_tokenizers=words)


def roberta(folder: Path) -> Parts:
    """CodeT5: as GPT-2, in a frame of <s> and </s>."""
    roles = special_tokens(folder)
    return replace(byte_level(folder), before=(roles.get("cls_token", ""),), after=(roles.get("sep_token", ""),))


def biogpt(folder: Path) -> Parts:
    """BioGPT: Moses' words, which the user of this must split and join."""
    roles = special_tokens(folder)
    return Parts(
        byte_pair_encoding(folder, suffix="</w>", unknown=roles.get("unk_token")),
        {"type": "BPEDecoder", "suffix": "</w>"},
        pre_tokenizers=({"type": "WhitespaceSplit"},),
        before=(roles.get("sep_token", ""),),
    )


def llama(folder: Path) -> Parts:
    """Llama, Mistral, Phi-3 and Gemma: SentencePiece, with <s> before every text."""
    settings, roles = optional_json(folder / "tokenizer_config.json"), special_tokens(folder)
    model = sentencepiece.read(folder / "tokenizer.model")
    prefix = settings.get("add_prefix_space")
    if isinstance(prefix, bool):
        model = replace(model, dummy_prefix=prefix)
    return Parts(
        *segmentation(model),
        *spacing(model, everywhere=settings.get("legacy") is not False),
        known=marked(model.pieces),
        before=(roles.get("bos_token", ""),) if settings.get("add_bos_token", True) else (),
        after=(roles.get("eos_token", ""),) if settings.get("add_eos_token") else (),
    )


def t5(folder: Path) -> Parts:
    """T5: SentencePiece, with </s> after every text, and sentinels after the vocabulary."""
    model = sentencepiece.read(folder / "spiece.model")
    count = optional_json(folder / "tokenizer_config.json").get("extra_ids", SENTINELS)
    if not isinstance(count, int) or not 0 <= count <= 10_000:
        raise UnsupportedCheckpoint(f"{folder / 'tokenizer_config.json'} asks for {count!r} extra_ids; correct it")
    size = len(model.pieces)
    sentinels = [AddedToken(size + place, f"<extra_id_{count - 1 - place}>") for place in range(count)]
    return Parts(
        *segmentation(model),
        *spacing(model, everywhere=True),
        known=(*marked(model.pieces), *sentinels),
        after=(special_tokens(folder).get("eos_token", ""),),
    )


KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Path], Parts]]] = {
    "BioGptTokenizer": (("vocab.json", "merges.txt"), biogpt),
    "CodeGenTokenizer": (("vocab.json", "merges.txt"), byte_level),
    "GPT2Tokenizer": (("vocab.json", "merges.txt"), byte_level),
    "GPTNeoXTokenizer": (("vocab.json", "merges.txt"), gpt_neox),
    "GemmaTokenizer": (("tokenizer.model",), llama),
    "LlamaTokenizer": (("tokenizer.model",), llama),
    "Qwen2Tokenizer": (("vocab.json", "merges.txt"), qwen2),
    "RobertaTokenizer": (("vocab.json", "merges.txt"), roberta),
    "T5Tokenizer": (("spiece.model",), t5),
}
"""The files and converter of each tokenizer class."""


def segmentation(model: SentencePiece) -> tuple[Part, Part]:
    """The model for these pieces, and the decoder that joins them."""
    steps: list[Part] = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    steps += [{"type": "ByteFallback"}] if model.byte_fallback else []
    steps += [{"type": "Fuse"}]
    steps += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if model.dummy_prefix else []
    decoder: Part = {"type": "Sequence", "decoders": steps}
    if model.algorithm == "unigram":
        scores = [(one.text, one.score) for one in model.pieces]
        unigram = {"type": "Unigram", "unk_id": model.unknown, "vocab": scores, "byte_fallback": model.byte_fallback}
        return unigram, decoder
    bpe = BYTE_PAIRS | {
        "unk_token": model.pieces[model.unknown].text,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "vocab": {one.text: number for number, one in enumerate(model.pieces)},
        "merges": merges(model.pieces),
    }
    return bpe, decoder


def merges(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """All pairs of pieces that merge to another, best score first."""
    spelled = {one.text: number for number, one in enumerate(pieces) if one.kind in (NORMAL, USER_DEFINED, UNUSED)}
    pairs = [
        (-pieces[number].score, place, len(text) - place, text[:place], text[place:])
        for text, number in spelled.items()
        for place in range(1, len(text))
        if text[:place] in spelled and text[place:] in spelled
    ]
    pairs.sort(key=lambda pair: pair[:3])
    return [(first, second) for *_, first, second in pairs]


def spacing(model: SentencePiece, *, everywhere: bool) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """The normalizers and pre-tokenizers that prepare a text for the pieces.

    If SentencePiece puts a space before the text, transformers does so after every special token too (`everywhere`,
    which it calls legacy), or only at the beginning.
    """
    steps: list[Part] = []
    if model.charsmap:
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(model.charsmap).decode()})
    if model.single_spaces:
        steps.append({"type": "Replace", "pattern": {"Regex": "^ +| +$"}, "content": ""})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if not everywhere:
        scheme = "first" if model.dummy_prefix else "never"
        return tuple(steps), ({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False},)
    steps += [{"type": "Prepend", "prepend": SPACE}] if model.dummy_prefix else []
    steps.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    return tuple(steps), ()


def marked(pieces: Sequence[Piece]) -> tuple[AddedToken, ...]:
    """The pieces that are found before splitting: control tokens, which are special, and symbols."""
    return tuple(
        AddedToken(number, one.text, special=one.kind == CONTROL)
        for number, one in enumerate(pieces)
        if one.kind in (CONTROL, USER_DEFINED)
    )


def ids_of(model: Part) -> dict[str, int]:
    """A model's tokens and ids."""
    found = model.get("vocab") or {}
    return dict(found) if isinstance(found, dict) else {text: number for number, (text, _) in enumerate(found)}


def enter(model: Part, vocabulary: Mapping[str, int], added: Sequence[AddedToken], folder: Path) -> None:
    """Give added tokens their ids in the model: replacing placeholders, or after the last one.

    The tokenizers library numbers further ones by itself; ids with gaps must be in the vocabulary.
    """
    texts = {number: text for text, number in vocabulary.items()}
    beyond = [one for one in added if one.id not in texts]
    if [one.id for one in beyond] != list(range(len(texts), len(texts) + len(beyond))):
        if model["type"] == "Unigram":
            raise UnsupportedCheckpoint(
                f"{folder} gives the added token {beyond[0].content!r} the id {beyond[0].id}, with a gap after "
                f"{len(texts) - 1} or behind it; download its tokenizer again"
            )
        model["vocab"] |= {one.content: one.id for one in beyond}
    for one in added:
        placeholder = texts.get(one.id, one.content)
        if placeholder == one.content:
            continue
        if model["type"] == "Unigram":
            model["vocab"][one.id] = (one.content, model["vocab"][one.id][1])
        else:
            model["vocab"][one.content] = model["vocab"].pop(placeholder)
            model["merges"] = [pair for pair in model["merges"] if placeholder not in (*pair, "".join(pair))]


def frame(before: Sequence[str], after: Sequence[str], ids: Mapping[str, int], folder: Path) -> Part | None:
    """The post-processor that puts special tokens around every text."""
    for text in (*before, *after):
        if text not in ids:
            raise UnsupportedCheckpoint(
                f"{folder} puts the special token {text!r} around texts, which its vocabulary lacks; "
                "correct tokenizer_config.json"
            )
    if not before and not after:
        return None

    def special(text: str, sequence: int) -> Part:
        return {"SpecialToken": {"id": text, "type_id": sequence}}

    def framed(name: str, sequence: int) -> list[Part]:
        start, end = ([special(text, sequence) for text in texts] for texts in (before, after))
        return [*start, {"Sequence": {"id": name, "type_id": sequence}}, *end]

    single = framed("A", 0)
    used = {text: {"id": text, "ids": [ids[text]], "tokens": [text]} for text in (*before, *after)}
    return {"type": "TemplateProcessing", "single": single, "pair": [*single, *framed("B", 1)], "special_tokens": used}


def sequence(name: str, steps: Sequence[Part]) -> Part | None:
    """A sequence of steps as a field of tokenizer.json."""
    if len(steps) < 2:
        return steps[0] if steps else None
    return {"type": "Sequence", name: list(steps)}
