"""tokenizer.json files that would take all memory, search for ever or abort the process: each ends with one line."""

import json
from pathlib import Path

import pytest

from chatapp.generation.errors import GenerationError
from chatapp.generation.memory import peak_memory
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.text.errors import one_line
from model_store import StoreError
from model_store.tokenizers import regex
from model_store.tokenizers.check import ADDED, PIECES
from support.tokenizer_parts import (
    PLAIN,
    Part,
    added,
    cut,
    decoders,
    framed,
    known,
    model,
    normalizers,
    replace,
    searched,
    sequence,
    special,
    table,
    trie,
    unit,
)

TEXTS = ("a", "", "hello abc ü 日 ĺ e e  <s> 12", "\0", "lea " * 500)


LONG, LONGER = "l" * 1000, "l" * 5_000_000
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GROWS = "more than 200 bytes of one byte"
SEARCHES = "the regular expression .* cannot be used"
REFUSED: list[tuple[str, Part]] = [
    (GROWS, normalizers(*[replace("l", LONG)] * 4)),
    (GROWS, normalizers(*[replace("e", "e" * 1000)] * 5)),
    (GROWS, normalizers(replace("l", LONG))),
    (GROWS, {"normalizer": replace("l", LONGER)}),
    (GROWS, {"normalizer": {"type": "Replace", "pattern": {"Regex": "l"}, "content": LONG}}),
    (GROWS, {"normalizer": {"type": "Replace", "pattern": {"Regex": ""}, "content": LONG}}),
    (GROWS, {"normalizer": {"type": "Replace", "pattern": {"Regex": "a|(?=l)"}, "content": LONG}}),
    (GROWS, {"normalizer": replace("", LONG)}),
    (GROWS, {"normalizer": {"type": "Prepend", "prepend": LONGER}}),
    (GROWS, normalizers(*[{"type": "Prepend", "prepend": "l" * 100}] * 2)),
    (GROWS, normalizers(*[replace("l", "ll")] * 9)),
    (GROWS, normalizers(*[replace("", "l")] * 9)),
    (GROWS, normalizers(*[replace("ll", "l" * 5)] * 7)),
    (GROWS, normalizers(*[replace("l", "ll"), replace("e", "eee")] * 6)),
    (GROWS, normalizers(*[{"type": "Sequence", "normalizers": [replace("l", "l" * 20)]}] * 3)),
    (GROWS, normalizers(*[BYTE_LEVEL] * 20)),
    (GROWS, cut(*[BYTE_LEVEL] * 20)),
    (GROWS, cut(*[{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}] * 9)),
    (GROWS, {**normalizers(replace("l", "l" * 100)), **cut(BYTE_LEVEL, BYTE_LEVEL)}),
    (GROWS, decoders(*[replace("a", "a" * 10_000)] * 4)),
    (GROWS, decoders(replace("a", "a" * 1000))),
    (GROWS, {"decoder": replace("", "a" * 1000)}),
    (GROWS, decoders(*[replace("a", "aaa")] * 6)),
    (GROWS, decoders(*[{"type": "WordPiece", "prefix": "", "cleanup": True}] * 12)),
    (GROWS, table(trie(0), b"l" * 1000 + b"\0")),
    (GROWS, normalizers(*table(trie(0), b"l" * 20 + b"\0")["normalizer"]["normalizers"] * 2)),
    (
        "reads each byte of a text more than 512 times",
        {**normalizers(*[replace("", "l")] * 7), **cut(*[searched("")] * 5)},
    ),
    ("it has 65 normalizers", normalizers(*[{"type": "NFC"}] * 65)),
    ("it has 1,000 pretokenizers", cut(*[{"type": "Whitespace"}] * 1000)),
    ("it has 100 decoders", decoders(*[{"type": "Fuse"}] * 100)),
    *((SEARCHES, {"pre_tokenizer": searched(pattern)}) for pattern in ("(.*)*(.*)*(.*)*(.*)*x$", "(a+)+x", "(a|a)*x")),
    *((SEARCHES, {"pre_tokenizer": searched(pattern)}) for pattern in ("(a|ab)*x", "(a*)*", "(?:a?)+x", "(a?){50}x")),
    *((SEARCHES, {"pre_tokenizer": searched(pattern)}) for pattern in (".*.*.*.*x", "(?:\\s*)*x", "((a+)|b)+x")),
    *((SEARCHES, {"pre_tokenizer": searched(pattern)}) for pattern in ("(a{99}){99}{99}", "a{9999999}", "a{2,3}+")),
    *((SEARCHES, {"pre_tokenizer": searched(pattern)}) for pattern in ("((a{1,90}){1,90}){1,90}", "(?i:(a+)+)", "(?>")),
    *((SEARCHES, {"pre_tokenizer": searched(pattern)}) for pattern in (r"(a*)\1\1", r"(?<n>a\g<n>?)", "(?~a)", "(?#")),
    *((SEARCHES, {"pre_tokenizer": searched(pattern)}) for pattern in ("(", ")", "[", "a(?", "\\", "(?:a", "[a[b]")),
    *(
        (SEARCHES, {"pre_tokenizer": searched(pattern)})
        for pattern in ("(" * 100 + "a" + ")" * 100, "(?=(a+)+x)", r"\X+")
    ),
    (SEARCHES, cut(searched(r"\p{L}+"), searched("(?:[a-z]+ ?)+$"))),
    (SEARCHES, {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+x"}, "content": ""}}),
    (SEARCHES, decoders({"type": "Replace", "pattern": {"Regex": "(a+)+x"}, "content": ""})),
    ("regular expression of 30,000 characters", {"pre_tokenizer": searched("a|" * 15_000)}),
    ("Oniguruma error", {"pre_tokenizer": searched("*")}),
    ("puts 'X' around a text", framed([special("X"), sequence("A")], {})),
    ("puts 'X' around a text", framed([sequence("A")], known("Y", [1]), [special("X"), sequence("B")])),
    ("puts 'X' around a text", framed("X:0 $A:0", {})),  # type: ignore[arg-type]
    ("too few or too many ids", framed([special("X")], {"X": {"id": "X", "ids": [1, 2], "tokens": ["a"]}})),
    ("puts 1,000,000 tokens around", framed([special("X"), sequence("A")], known("X", [1] * 1_000_000))),
    ("puts 100,000 tokens around", framed([special("X")] * 1000 + [sequence("A")], known("X", [1] * 100))),
    ("puts 1,000 tokens around", framed([sequence("A")] * 1000, {})),
    ("puts 100,000 tokens around", framed([sequence("A")], known("X", [1] * 1000), [special("X")] * 100)),
    ("a second text beside the only one", framed([sequence("B")], {})),
    ("a Prepend of nothing", normalizers({"type": "Prepend", "prepend": ""}, {"type": "NFC"})),
    ("a Replace of nothing", normalizers(replace("", "l"), {"type": "Lowercase"})),
    *(
        ("a Replace of nothing", normalizers({**replace("", "x"), "pattern": {"Regex": pattern}}, {"type": "NFC"}))
        for pattern in ("^", r"\b", "x*", "(?!b)", "$")
    ),
    (
        "tokens around a text 3 times",
        {
            "post_processor": {
                "type": "Sequence",
                "processors": [framed([special("X"), sequence("A")], known("X", [1]))["post_processor"]] * 3,
            }
        },
    ),
    (
        "puts 'X' around a text",
        {"post_processor": {"type": "Sequence", "processors": [framed([special("X")], {})["post_processor"]]}},
    ),
    ("cuts texts into parts of 0", {"pre_tokenizer": {"type": "FixedLength", "length": 0}}),
    ("cuts texts into parts of -1", {"pre_tokenizer": {"type": "FixedLength", "length": -1}}),
    ("strips the ends of tokens", decoders({"type": "Strip", "content": "a", "start": 3, "stop": 3})),
    ("strips the ends of tokens", {"decoder": {"type": "Strip", "content": "a", "start": 1, "stop": 1}}),
    ("precompiled_charsmap. is empty", normalizers({"type": "Precompiled", "precompiled_charsmap": ""})),
    ("it is not a tokenizer", normalizers({"type": "Precompiled", "precompiled_charsmap": None})),
    ("cannot read", normalizers({"type": "Precompiled", "precompiled_charsmap": "ü%"})),
    ("precompiled_charsmap. is incomplete", table(b"", b"abc\0")),
    ("precompiled_charsmap. is incomplete", table(b"\0\0", b"abc\0")),
    ("precompiled_charsmap. leads out of itself", table(b"\xff" * 8, b"abc\0")),
    ("precompiled_charsmap. leads out of itself", table(b"\0" * 8, b"abc\0")),
    ("precompiled_charsmap. leads out of itself", table(unit(0, 100_000) * 256, b"abc\0")),
    ("cannot read .*utf-8", table(trie(0), b"\xff\xfe\0")),
    ("texts that are not there", table(trie(99), b"b\0")),
    ("texts that are not there", table(trie(1), "ü\0".encode())),
    ("texts that are not there", table(trie(0), b"")),
    ("its end_of_word_suffix has 5,000,000 char", model(**PLAIN, end_of_word_suffix=LONGER)),
    ("its continuing_subword_prefix has 1,000 char", model(**PLAIN, continuing_subword_prefix=LONG)),
    ("its unk_token has 1,000 char", model(**PLAIN | {"unk_token": LONG})),
    ("its suffix has 1,000 char", {"decoder": {"type": "BPEDecoder", "suffix": LONG}}),
    ("its prefix has 1,000 char", {"decoder": {"type": "WordPiece", "prefix": LONG, "cleanup": True}}),
    (
        "its pad_token has 1,000 char",
        {"decoder": {"type": "CTC", "pad_token": LONG, "word_delimiter_token": "", "cleanup": True}},
    ),
    ("second does not begin with ##", model(**PLAIN | {"merges": ["a b"]}, continuing_subword_prefix="##")),
    ("second does not begin with ##", model(**PLAIN | {"merges": [["a", "b"]]}, continuing_subword_prefix="##")),
    ("the id 4,000,000,000", model(**PLAIN | {"vocab": {"<unk>": 0, "a": 4_000_000_000}})),
    ("cannot read", model(**PLAIN | {"vocab": {"<unk>": 0, "a": -1}})),
    ("it is not a tokenizer", model(**PLAIN | {"vocab": {"<unk>": 0, "a": "b"}})),
    ("it is not a tokenizer", model(**PLAIN | {"vocab": 7})),
    ("'vocab' is missing", model(type="BPE")),
    ("Token `q` out of vocabulary", model(**PLAIN | {"merges": ["a q"]})),
    ("Dropout should be between", model(**PLAIN, dropout=7.0)),
    ("words of 1,000,000,000 characters", model(**PLAIN | {"type": "WordPiece"}, max_input_chars_per_word=10**9)),
    ("pieces have more than", model(type="Unigram", unk_id=0, vocab=[["<unk>", 0.0], ["z" * (PIECES + 1), -1.0]])),
    ("UnkIdNotInVocabulary", model(type="Unigram", unk_id=99, vocab=[["a", -1.0]])),
    ("its added tokens have 2,000,001", added("z" * (ADDED + 1))),
    (
        "its added tokens have 15,000,000",
        {**added("z" * 100_000, normalized=True), **normalizers(replace("z", "z" * 150))},
    ),
    ("its added tokens have 3,002,000", added(*(f"{i:03}{'z' * 997}" for i in range(3000)))),
    ("cannot read", {"normalizer": {"type": "Nothing"}}),
    ("'type' is missing", {"normalizer": {}}),
    ("'lll.*' is none of its normalizers", {"normalizer": {**replace("l", LONG), "type": LONG}}),
    ("'None' is none of its normalizers", {"normalizer": {"type": None, "normalizers": [replace("l", LONGER)] * 9}}),
    ("'Replace' is none of its pretokenizers", {"pre_tokenizer": replace("l", LONG)}),
    (
        "'1e.308' is none of its processors",
        {"post_processor": {**framed([special("X")], {})["post_processor"], "type": 1e308}},
    ),
    ("it is not a tokenizer", {"normalizer": []}),
    ("it is not a tokenizer", {"added_tokens": 7}),
    ("it is not a tokenizer", {"decoder": {"type": "Sequence", "decoders": 7}}),
    ("'pattern' is missing", {"normalizer": {"type": "Replace", "content": "x"}}),
    ("'Regex' is missing", {"normalizer": {"type": "Replace", "pattern": {}, "content": "x"}}),
]
"""What is said, and parts of a file that would take all memory, or panic, or search for ever."""
HARMLESS: list[Part] = [
    {},
    normalizers(*[replace("l", "ll")] * 7),
    normalizers(*[replace("", "l")] * 7),
    normalizers(*[{"type": kind} for kind in ("NFD", "NFKD", "NFKC", "NFC", "Lowercase", "StripAccents", "Nmt")] * 3),
    table(trie(0), b"l" * 150 + b"\0"),
    {"normalizer": {"type": "Prepend", "prepend": "l" * 500}},
    {"normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}},
    cut(*[BYTE_LEVEL] * 6),
    cut(*[searched("")] * 24),
    {"pre_tokenizer": searched(r"\b")},
    {"pre_tokenizer": searched("(?<=a)")},
    {"pre_tokenizer": searched(r"\s*\s*\s*x")},
    {"pre_tokenizer": searched(".*.*x")},
    {"pre_tokenizer": {**searched(""), "pattern": {"String": ""}}},
    {"pre_tokenizer": {"type": "FixedLength", "length": 1}},
    {"pre_tokenizer": {"type": "Digits", "individual_digits": True}},
    decoders(*[replace("a", "aa")] * 7),
    {"decoder": {"type": "BPEDecoder", "suffix": ""}},
    {"decoder": {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True}},
    {"decoder": {"type": "Strip", "content": "a", "start": 10**9, "stop": 0}},
    framed([special("X")] * 4 + [sequence("A")] * 10, known("X", [1] * 4)),
    framed([sequence("A")], known("X", [4_000_000_000]), [special("X"), sequence("A"), sequence("B")]),
    {"post_processor": {"type": "BertProcessing", "sep": ["x", 999_999], "cls": ["y", 5]}},
    model(**PLAIN, end_of_word_suffix="</w>" * 15),
    model(**PLAIN, byte_fallback=True),
    model(**PLAIN | {"unk_token": "<missing>"}),
    model(**PLAIN | {"vocab": {"<unk>": 0, "a": 16_000_000}}),
    model(type="WordPiece", unk_token="[UNK]", vocab={"a": 0}, max_input_chars_per_word=100),
    model(type="WordLevel", unk_token="[UNK]", vocab={"a": 0}),
    model(type="Unigram", unk_id=None, vocab=[]),
    model(type="Unigram", unk_id=None, vocab=[["a", -1.0]]),
    model(type="Unigram", unk_id=0, vocab=[["", 0.0], ["a", -1e308], ["aa", 1e308]]),
    added("", normalized=True, lstrip=True),
    added(" ", single_word=True, rstrip=True),
    added("zz", "zz", special=True),
    added(*(f"z{i}" for i in range(20_000))),
    {**added("z" * 10_000, normalized=True), **normalizers(replace("z", "z" * 150))},
    {
        "padding": {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None}
        | {"pad_id": 0, "pad_type_id": 0, "pad_token": "a"}
    },
    {"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5}},
]
"""Odd, and within the bounds: such a file is used, or refused with a line where the library finds it wrong."""


def written(folder: Path, part: Part) -> Path:
    content: Part = {"version": "1.0", "model": PLAIN}
    content |= dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    (folder / "tokenizer.json").write_text(json.dumps({**content, "added_tokens": [], **part}))
    return folder


def test_there_are_enough_hostile_tokenizers() -> None:
    assert len(REFUSED) + len(HARMLESS) >= 140


@pytest.mark.parametrize(("says", "part"), REFUSED, ids=[f"{i}-{says[:40]}" for i, (says, _) in enumerate(REFUSED)])
def test_what_would_take_all_memory_or_time_is_refused_in_one_line(
    says: str, part: Part, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((StoreError, GenerationError), match=says) as caught:
        Tokenizer(written(tmp_path, part))
    line = one_line(caught.value)
    assert line and len(line) < 500 + len(str(tmp_path))
    assert capfd.readouterr().err == ""  # a panic writes there


@pytest.mark.parametrize("part", HARMLESS, ids=range(len(HARMLESS)))
def test_what_is_within_the_bounds_takes_memory_in_proportion(
    part: Part, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = peak_memory()
    try:
        tokenizer = Tokenizer(written(tmp_path, part))
        for text in TEXTS:
            tokens = tokenizer.encode_template(text) + tokenizer.encode(text)
            assert tokenizer.decode(tokens[:500]) is not None
            detokenizer = tokenizer.detokenizer()
            assert "".join(map(detokenizer.add, tokens[:50])) + detokenizer.flush() is not None
    except (StoreError, GenerationError) as error:
        assert one_line(error)
    assert capfd.readouterr().err == ""
    assert peak_memory() - before < 300_000_000


COLLUDING = ("a*a*a*(?<=b)", "(?:a*a*)b", "a*a*$", "a?" * 24 + "b", "a{0,100}" * 4 + "b", "(?=a*a*b)a")
"""Expressions that a text of many `a` has them search for ever."""


@pytest.mark.parametrize("pattern", COLLUDING)
def test_no_text_makes_a_search_so_long_that_the_library_panics(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], pattern: str
) -> None:
    with pytest.raises(StoreError, match="too many ways to match"):
        Tokenizer(written(tmp_path, {"pre_tokenizer": searched(pattern)})).encode("a" * 5_000)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("pattern", ["a*a*", "a*b", "a*(?<=b)", "(?:a|aa){3}a*b"])
def test_what_may_be_searched_for_is_searched_for_in_silence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], pattern: str
) -> None:
    assert Tokenizer(written(tmp_path, {"pre_tokenizer": searched(pattern)})).encode("a" * 5_000)
    assert capfd.readouterr().err == ""


def test_a_panic_of_the_library_is_one_line_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would be with an expression that is worse than it looks."""
    monkeypatch.setattr(regex, "IN_A_ROW", 9)
    tokenizer = Tokenizer(written(tmp_path, {"pre_tokenizer": searched("a*a*a*(?<=b)")}))
    with pytest.raises(GenerationError, match="cannot encode this text: .*retry-limit"):
        tokenizer.encode("a" * 1000)
    assert tokenizer.encode("aa")
    capfd.readouterr()


PUBLISHED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{M}&&[^\p{Han}]]+(?i:'s|'t)?",
    r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))",
    r"(?=(\d{3})+(?!\d))",
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺ]+",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"\s+$",
    "^ +| +$",
    "[\r\n]",
]
"""Of GPT-2, Llama 3, cl100k, o200k, Kimi, EXAONE, DeepSeek, BLOOM, Apertus, Falcon, CLIP and others."""


@pytest.mark.parametrize("pattern", PUBLISHED)
def test_regular_expressions_that_publishers_use_are_accepted(pattern: str) -> None:
    assert regex.check(pattern) <= 1


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        (" {2,}", 2),
        ("ab|c", 1),
        ("日", 3),
        ("(?:ab){3}c?", 6),
        (r"\x{41}\u0042[^\]a-z]", 3),
        ("(?i)a\\.", 2),
        ("a(?=b)", 1),
    ],
)
def test_the_shortest_text_that_an_expression_matches_is_known(pattern: str, least: int) -> None:
    assert regex.check(pattern) == least
