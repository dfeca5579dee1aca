"""Convert a GGUF file's vocabulary to a checkpoint's tokenizer files.

How llama.cpp reads the same keys is in src/llama-vocab.cpp of https://github.com/ggml-org/llama.cpp; where its regular
expressions only approximate the publishers', the publishers' are used.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from model_store.errors import UnsupportedCheckpoint
from model_store.gguf.reader import Header
from model_store.tokenizers.merges import BYTE_PAIRS
from model_store.tokenizers.sentencepiece import BYTE, NORMAL, UNKNOWN, Piece, SentencePiece
from model_store.tokenizers.tokenizer import (
    QWEN_WORDS,
    Part,
    Parts,
    assemble,
    letters,
    marked,
    segmentation,
    spacing,
    split,
)

Files = dict[str, dict[str, Any]]  # Any: parsed JSON
"""JSON files by name."""

LLAMA_WORDS = QWEN_WORDS.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
QWEN_MARKS = QWEN_WORDS.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r" ?[^\s\p{L}\p{N}]", r" ?[^\s\p{L}\p{M}\p{N}]")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
START = r"[^\r\n\p{L}\p{N}]?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN_WORDS = rf"{START}{UPPER}*{LOWER}+|{START}{UPPER}+{LOWER}*|\p{{N}}{REST}"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT_4O_WORDS = rf"{START}{UPPER}*{LOWER}+{SHORT}|{START}{UPPER}+{LOWER}*{SHORT}|\p{{N}}{{1,3}}{REST}"
EXAONE_WORDS = QWEN_WORDS.replace(r"?\p{L}+", r"?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+").replace(
    r"[\r\n]*|\s*[\r\n]+", r"[\r\n/]?|\s*[\r\n]"
)
"""Several words, with their marks, are one."""
BLOOM_WORDS = r" ?[^(\s|[.,!?…。，、।۔،])]+"
HAN = "[一-龥ࠀ-一가-퟿]+"
CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻ"
    "Ȿ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
"""Letters of scripts with capitals, as in DeepSeek's tokenizers."""
DEEPSEEK = "[\r\n]", rf"\s?[{CASED}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", HAN
DEEPSEEK_CODER = "[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN
PUNCTUATION = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
DEEPSEEK_V3 = (
    r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
    PUNCTUATION + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)  # fmt: skip
YOUTU = (
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+",
    GPT_4O_WORDS.replace("{1,3}", ""),
)
NO_HAN = r"&&[^\p{Han}]]"
KIMI_WORDS = r"\p{Han}+|" + (
    GPT_4O_WORDS.replace(UPPER, UPPER[:-1] + NO_HAN)
    .replace(LOWER, LOWER[:-1] + NO_HAN)
    .replace(r"[\r\n/]*", r"[\r\n]*")
)
SEED_WORDS = QWEN_WORDS.replace(r"| ?[^\s\p{L}\p{N}]+[\r\n]*|", r"| ?[^\s\p{L}\p{N}\r\n]+|")
THREES = r"\d{1,3}(?=(?:\d{3})*\b)"
"""Digits in threes, counted from the end of a number."""
ASIAN = "[一-鿿㐀-䶿豈-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdfเ-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ]+"
DIGITS: Part = {"type": "Digits", "individual_digits": True}


def words(*patterns: str) -> tuple[Part, ...]:
    """A pre-tokenizer of regular expressions, one after another."""
    return (*map(split, patterns), letters(words=False))


WORDS: Mapping[str, tuple[Part, ...]] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "mellum", "a.x-4.0", "gigachat",
                     "granite-docling"), (letters(),)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                     "smaug-bpe", "dbrx", "glm4", "chatglm-bpe"), words(LLAMA_WORDS)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "hunyuan", "kormo", "megrez", "stablelm2"), words(QWEN_WORDS)),
    "qwen35": words(QWEN_MARKS),
    **dict.fromkeys(("starcoder", "smollm", "refact", "command-r", "codeshell", "minerva-7b", "exaone", "mellum2"),
                    (DIGITS, letters())),
    **dict.fromkeys(("bloom", "gpt3-finnish", "poro-chat"), words(BLOOM_WORDS)),
    "viking": (split(BLOOM_WORDS), DIGITS, letters(words=False)),
    "deepseek-llm": (*map(split, DEEPSEEK), DIGITS, letters(words=False)),
    "deepseek-coder": (*map(split, DEEPSEEK_CODER), DIGITS, letters(words=False)),
    "tekken": words(TEKKEN_WORDS),
    **dict.fromkeys(("gpt-4o", "minimax-m2"), words(GPT_4O_WORDS)),
    "exaone-moe": words(EXAONE_WORDS),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense"), words(*DEEPSEEK_V3)),
    "youtu": words(*YOUTU),
    "kimi-k2": words(KIMI_WORDS),
    "seed-coder": words(SEED_WORDS),
    "tiny_aya": words(THREES, GPT_4O_WORDS),
    "afmoe": words(THREES.replace(r"\b", r"(?!\d)"), ASIAN, DEEPSEEK_V3[-1]),
}  # fmt: skip
"""The pre-tokenizers, by `tokenizer.ggml.pre`."""
BEGINNING = ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")
"""Pre-tokenizers whose texts begin with a special token."""
WHOLE_WORDS = (*BEGINNING, "youtu")
"""Pre-tokenizers that keep a word that is a token as one, whatever the merges."""
COMPOSED = ("qwen2", "qwen35", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2")
"""Pre-tokenizers that first compose letters with their accents."""
USUAL = {
    "bitnet-b1.58": "llama-bpe", "bloom": "bloom", "gpt2": "gpt-2", "gptneox": "gpt-2", "phi2": "phi-2",
    "qwen2": "qwen2", "qwen3": "qwen2", "starcoder": "starcoder", "starcoder2": "starcoder",
}  # fmt: skip
"""The pre-tokenizers of architectures whose files are older than `tokenizer.ggml.pre`, or lack it, as BitNet's do."""
END_OF_TURN = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>",
    "▁<EOT>", "<｜end▁of▁sentence｜>", "<turn|>",
)  # fmt: skip
"""Names of tokens that end a reply, which few files declare."""
ROLES = {"bos_token": "bos_token_id", "eos_token": "eos_token_id", "unk_token": "unknown_token_id",
         "pad_token": "padding_token_id"}  # fmt: skip
CHAT_TEMPLATE = "tokenizer.chat_template"


def tokenizer_files(header: Header) -> Files:
    """The tokenizer files for this GGUF file."""
    try:
        return files_of(header)
    except (ValueError, TypeError) as error:
        raise UnsupportedCheckpoint(
            f"the tokenizer in {header.path} cannot be used: {error}; use another conversion of it"
        ) from error


def files_of(header: Header) -> Files:
    """The files; ValueError says what is wrong with the keys."""
    kind = header.metadata.get("tokenizer.ggml.model")
    if kind not in ("gpt2", "llama", "t5", "gemma4"):
        known = "known: gpt2, llama, t5, gemma4"
        raise ValueError(f"tokenizers of the kind {kind!r} (tokenizer.ggml.model) are not supported ({known})")
    pieces = pieces_of(header)
    roles = {
        role: pieces[place].text for role, key in ROLES.items() if (place := token_id(header, key, pieces)) is not None
    }
    begins = kind in ("llama", "gemma4") or words_of(header) in BEGINNING
    frame = {"before": framing(header, "bos", roles, begins), "after": framing(header, "eos", roles, kind == "t5")}
    parts = byte_pairs(header, pieces, frame) if kind == "gpt2" else sentence_pieces(header, pieces, frame)
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **roles}
    template = header.metadata.get(CHAT_TEMPLATE)
    if template is not None:
        if not isinstance(template, str):
            raise ValueError(f"its {CHAT_TEMPLATE} is no text")
        settings["chat_template"] = template
    ends = {token_id(header, f"{name}_token_id", pieces) for name in ("eos", "eot", "eom")}
    ends |= {place for place, one in enumerate(pieces) if one.text in END_OF_TURN and one.kind != NORMAL}
    return {
        "tokenizer.json": assemble(parts, parts.known, header.path),
        "tokenizer_config.json": settings,
        "generation_config.json": {"eos_token_id": sorted(place for place in ends if place is not None)},
    }


def pieces_of(header: Header) -> list[Piece]:
    """The vocabulary: texts, scores and kinds, which have SentencePiece's numbers in GGUF."""
    texts = header.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(texts, list) or not texts:
        raise ValueError("it has no tokens (tokenizer.ggml.tokens)")
    texts = [text or f"[EMPTY_{place}]" for place, text in enumerate(texts)]
    if len(set(texts)) != len(texts):
        twice = next(text for place, text in enumerate(texts) if texts.index(text) != place)
        raise ValueError(f"the token {twice!r} is there twice")
    scores = numbers(header, "scores", len(texts), 0.0)
    kinds = numbers(header, "token_type", len(texts), NORMAL)
    if not np.isfinite(scores).all():
        raise ValueError("a token has a score that is no number")
    known = range(NORMAL, BYTE + 1)
    return [
        Piece(text, float(score), int(kind) if kind in known else NORMAL)
        for text, score, kind in zip(texts, scores, kinds, strict=True)
    ]


def numbers(header: Header, name: str, count: int, default: float) -> np.ndarray:
    """A number for each token."""
    found = header.metadata.get(f"tokenizer.ggml.{name}")
    if found is None:
        return np.full(count, default)
    if not isinstance(found, np.ndarray) or len(found) != count:
        raise ValueError(f"tokenizer.ggml.{name} has not one number for each of the {count:,} tokens")
    return found


def token_id(header: Header, key: str, pieces: Sequence[Piece]) -> int | None:
    """The token id in a key; None if there is none."""
    found = header.metadata.get(f"tokenizer.ggml.{key}")
    if found is None or found == 0xFFFF_FFFF:  # -1, which some converters write for none
        return None
    if type(found) is not int or not 0 <= found < len(pieces):
        raise ValueError(f"tokenizer.ggml.{key} is {found!r}, and there are {len(pieces):,} tokens")
    return found


def flag(header: Header, name: str, default: bool) -> bool:
    """A boolean key."""
    found = header.metadata.get(f"tokenizer.ggml.{name}", default)
    if not isinstance(found, bool):
        raise ValueError(f"tokenizer.ggml.{name} is {found!r}, neither yes nor no")
    return found


def framing(header: Header, name: str, roles: Mapping[str, str], default: bool) -> tuple[str, ...]:
    """The special token at the beginning (`bos`) or the end (`eos`) of every text, if there is one."""
    if not flag(header, f"add_{name}_token", default):
        return ()
    if f"{name}_token" not in roles:
        raise ValueError(f"every text should have the {name} token, and none is named (tokenizer.ggml.{name}_token_id)")
    return (roles[f"{name}_token"],)


def sentence_pieces(header: Header, pieces: list[Piece], frame: dict[str, tuple[str, ...]]) -> Parts:
    """The parts of a tokenizer of SentencePiece's kind."""
    unknown = token_id(header, "unknown_token_id", pieces)
    if unknown is None:
        unknown = next((place for place, one in enumerate(pieces) if one.kind == UNKNOWN), None)
    if unknown is None:
        raise ValueError("no token stands for what is unknown (tokenizer.ggml.unknown_token_id)")
    prefix, single = flag(header, "add_space_prefix", True), flag(header, "remove_extra_whitespaces", False)
    fallback = any(one.kind == BYTE for one in pieces)
    algorithm = "unigram" if header.metadata["tokenizer.ggml.model"] == "t5" else "bpe"
    charsmap = header.metadata.get("tokenizer.ggml.precompiled_charsmap", np.empty(0))
    if not isinstance(charsmap, np.ndarray):
        raise ValueError("tokenizer.ggml.precompiled_charsmap holds no bytes")
    normalizer = charsmap.astype(np.uint8).tobytes()
    model = SentencePiece(tuple(pieces), algorithm, unknown, fallback, normalizer, prefix, single)
    model_part, decoder = segmentation(model)
    normalizers, pre_tokenizers = spacing(model, everywhere=True)
    if header.metadata["tokenizer.ggml.model"] == "gemma4":  # merges in an order of their own, line by line
        model_part["merges"] = merges_of(header, model_part["vocab"])
        pre_tokenizers = (split(r"\n+"),)
    return Parts(model_part, decoder, normalizers, pre_tokenizers, marked(pieces), **frame)


def words_of(header: Header) -> str:
    """The name of the pre-tokenizer."""
    usual = USUAL.get(str(header.metadata.get("general.architecture")))
    return str(header.metadata.get("tokenizer.ggml.pre", usual))


def byte_pairs(header: Header, pieces: list[Piece], frame: dict[str, tuple[str, ...]]) -> Parts:
    """The parts of a tokenizer of GPT-2's kind."""
    name = words_of(header)
    if name not in WORDS:
        known = ", ".join(WORDS)
        raise ValueError(f"words cut as {name!r} (tokenizer.ggml.pre) are not supported (known: {known})")
    composed = name in COMPOSED or header.metadata.get("general.architecture") == "gptneox"
    vocabulary = {one.text: place for place, one in enumerate(pieces)}
    merges = merges_of(header, vocabulary)
    bpe = BYTE_PAIRS | {"ignore_merges": name in WHOLE_WORDS, "vocab": vocabulary, "merges": merges}
    normalizers: tuple[Part, ...] = ({"type": "NFC"},) if composed else ()
    return Parts(bpe, letters(prefix=True), normalizers, WORDS[name], marked(pieces), **frame)


def merges_of(header: Header, vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges, most urgent first."""
    lines = header.metadata.get("tokenizer.ggml.merges")
    if not isinstance(lines, list):
        raise ValueError("it has no merges (tokenizer.ggml.merges)")
    pairs = []
    for line in lines:
        place = line.find(" ", 1)
        first, second = line[:place], line[place + 1 :]
        if place < 0 or not {first, second, first + second} <= vocabulary.keys():
            raise ValueError(f"the merge {line[:40]!r} joins no two tokens to another one")
        pairs.append((first, second))
    return pairs
