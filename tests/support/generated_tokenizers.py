"""tokenizer.json files made at random of parts that grow, search, frame, or lack what they name."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from drills.damage import changed

from model_store.tokenizers import regex
from support.generated_templates import Chance, size
from support.tokenizer_parts import PLAIN, Part, added, framed, known, replace, searched, sequence, special, table, trie


def tokenizer(chance: Chance) -> str:
    """A tokenizer.json of parts that grow, search or lack something; seldom with a value that is another."""
    content: Part = {"version": "1.0", "truncation": None, "padding": None, "model": model(chance), **tokens(chance)}
    content["normalizer"] = chain(chance, normalizer, "normalizers", 0.5)
    content["pre_tokenizer"] = chain(chance, pretokenizer, "pretokenizers", 0.6)
    content["decoder"] = chain(chance, decoder, "decoders", 0.4)
    content["post_processor"] = chain(chance, processor, "processors", 0.2)
    return changed(chance, content).decode() if chance.random() < 0.15 else json.dumps(content)


def chain(chance: Chance, part: Callable[[Chance], Part], several: str, often: float) -> Part | None:
    """Nothing, one part, or several, perhaps the same many times."""
    if chance.random() > often:
        return None
    if chance.random() < 0.5:
        return part(chance)
    parts = [part(chance) for _ in range(chance.randint(1, 4))] * chance.choice([1, 1, 1, 1, 1, 2, 5, 40])
    return {"type": "Sequence", several: parts}


def letters(chance: Chance, most: float = 3) -> str:
    """Some text."""
    return "".join(chance.choices("ale ▁Ġü日1.\n", k=chance.randint(0, 3))) * chance.choice([1, 1, size(chance, most)])


def expression(chance: Chance) -> str:
    """A regular expression, mostly one that is not refused."""
    for _ in range(20):
        found = searching(chance, chance.choice([1, 2, 2, 3]))
        with suppress(ValueError):
            regex.check(found)
            break
    return found


def searching(chance: Chance, depth: int) -> str:
    """Any regular expression."""
    if not depth:
        atoms = [
            "a",
            "l",
            " ",
            ".",
            r"\s",
            r"\S",
            r"\p{L}",
            r"\p{N}",
            "[a-z]",
            "[^x]",
            "x",
            r"\b",
            "$",
            "^",
            "é",
            r"[^\s\p{L}]",
        ]
        return chance.choice(atoms) + chance.choice(["", "", "", "*", "+", "?", "{2,}", "{1,9}", "{3}", "*?", "++"])
    one, other = searching(chance, depth - 1), searching(chance, depth - 1)
    return chance.choice(
        [
            one,
            one + other,
            one + other,
            f"{one}|{other}",
            f"(?:{one}){chance.choice(['', '?', '{2}', '{1,3}', '+', '*'])}",
        ]
        + [
            f"(?={one}){other}",
            f"{one}(?!{other})",
            f"(?i:{one}){other}",
            f"(?<=a){one}",
            f"(?>{one}){other}",
            f"({one}){other}x",
        ]
    )


def replacing(chance: Chance) -> Part:
    """What replaces a text or an expression."""
    if chance.random() < 0.5:
        return replace(letters(chance, 1), letters(chance))
    return {"type": "Replace", "pattern": {"Regex": expression(chance)}, "content": letters(chance)}


def normalizer(chance: Chance) -> Part:
    """A step before the text is cut."""
    kind = chance.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"])
    flags = dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), chance.random() < 0.5)
    units = chance.choice([trie(0), trie(0), chance.randbytes(4 * size(chance, 4))])
    charsmap: Part = table(units, letters(chance).encode() + b"\0")["normalizer"]["normalizers"][0]
    strip = {"type": "Strip", "strip_left": chance.random() < 0.5, "strip_right": chance.random() < 0.5}
    plain: list[Part] = [{"type": kind}, {"type": "BertNormalizer", **flags}, charsmap, strip]
    return chance.choice(
        [replacing(chance), replacing(chance), {"type": "Prepend", "prepend": letters(chance)}, *plain]
    )


def pretokenizer(chance: Chance) -> Part:
    """A step that cuts the text."""
    behavior = chance.choice(["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
    scheme, flag = chance.choice(["always", "first", "never"]), chance.random() < 0.5
    return chance.choice(
        [
            {**searched(expression(chance)), "behavior": behavior, "invert": flag},
            {**searched(expression(chance)), "behavior": behavior, "invert": flag},
            {**searched(""), "pattern": {"String": letters(chance, 1)}, "behavior": behavior},
            {"type": "ByteLevel", "add_prefix_space": flag, "trim_offsets": True, "use_regex": chance.random() < 0.5},
            {"type": "Metaspace", "replacement": chance.choice("▁a日"), "prepend_scheme": scheme, "split": flag},
            {"type": "Digits", "individual_digits": flag},
            {"type": "Punctuation", "behavior": behavior},
            {"type": chance.choice(["Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"])},
            {"type": "CharDelimiterSplit", "delimiter": chance.choice("a \n日")},
            {"type": "FixedLength", "length": size(chance, 10)},
        ]
    )


def decoder(chance: Chance) -> Part:
    """A step that puts tokens together."""
    cleanup, affix = chance.random() < 0.5, letters(chance, 2)
    return chance.choice(
        [
            replacing(chance),
            {"type": chance.choice(["ByteFallback", "Fuse"])},
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            {"type": "Strip", "content": "a", "start": size(chance, 9), "stop": chance.choice([0, 0, 1])},
            {"type": "WordPiece", "prefix": affix, "cleanup": cleanup},
            {"type": "BPEDecoder", "suffix": affix},
            {"type": "CTC", "pad_token": affix, "word_delimiter_token": letters(chance, 1), "cleanup": cleanup},
        ]
    )


def processor(chance: Chance) -> Part:
    """A step that puts tokens around a text."""
    parts = [special("X")] * size(chance, 2) + [sequence(chance.choice("AAAAB"))] * size(chance, 1)
    around: Part = framed(parts, known("X", [size(chance, 9)] * size(chance, 1)), [sequence("B")])["post_processor"]
    pair = {"sep": ["b", size(chance, 7)], "cls": ["c", size(chance, 7)]}
    bytes_too = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    roberta = {"type": "RobertaProcessing", "trim_offsets": True, "add_prefix_space": False, **pair}
    return chance.choice([around, around, {"type": "BertProcessing", **pair}, roberta, bytes_too])


def model(chance: Chance) -> Part:
    """A vocabulary, which may be large, long or damaged."""
    kind = chance.choice(["BPE", "BPE", "BPE", "WordPiece", "WordLevel", "Unigram"])
    doubled = ["a" * 2**power for power in range(chance.randint(1, 16))]
    pieces = [*PLAIN["vocab"], *doubled, *(f"{letters(chance)}{i}" for i in range(size(chance, 3.5)))]
    pieces = list(dict.fromkeys(pieces))
    if kind == "Unigram":
        scores: list[Any] = [-1.0, -9.5, 0.0, 1e308, -1e308, 1e-308]  # Any: JSON
        vocabulary = [[piece, chance.choice(scores)] for piece in pieces]
        return {
            "type": kind,
            "unk_id": chance.choice([0, None, len(pieces)]),
            "vocab": vocabulary,
            "byte_fallback": chance.random() < 0.3,
        }
    ids = dict(zip(pieces, range(0, 10**9, chance.choice([1, 1, 1, 1000])), strict=False))
    fields: Part = {
        **PLAIN,
        "type": kind,
        "vocab": ids,
        "unk_token": chance.choice(["<unk>", "<unk>", "<unk>", letters(chance)]),
    }
    if kind == "BPE":
        fields["merges"] = [[one, one] for one in doubled[:-1]] * chance.choice([1, 1, 0, 9])
        for name in ("fuse_unk", "byte_fallback", "ignore_merges"):
            fields[name] = chance.random() < 0.3
        fields["dropout"] = chance.choice([None, None, 0.5, 1.0])
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        fields[name] = chance.choice(["", "", "", "", "##", letters(chance, 1)])
    return fields | {"max_input_chars_per_word": size(chance, 3.3)} if kind == "WordPiece" else fields


def tokens(chance: Chance) -> Part:
    """Added tokens, which may be many, long or empty."""
    contents = [f"{letters(chance)}{i or ''}" for i in range(chance.choice([0, 0, 1, 5, size(chance, 4)]))]
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return added(*contents, **{name: chance.random() < 0.3 for name in names})
