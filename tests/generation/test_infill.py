"""Fill-in-the-middle prompts."""

import json
import random
import re
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Vocabulary
from tokenizers import decoders, models, pre_tokenizers, trainers

from chatapp.generation import Excerpt, Options, Surroundings
from chatapp.generation.errors import GenerationError
from chatapp.generation.text.infill import find, line_behind
from chatapp.generation.text.tokenizer import Tokenizer
from model_store.tokenizers.tokenizer import convert
from support.scripted_session import SPECIAL, hashed, make_engine, saying, text_of, write_tokenizer

GOLDEN_TOKENIZERS = Path(__file__).parents[1] / "golden_tokenizers"

PREFIX = "".join(f"first_{i} = {i}\n" for i in range(60)) + "    return "
SUFFIX = "".join(f"\nlast_{i} = {i}" for i in range(60))


def open_tokenizer(folder: Path, **config: object) -> Tokenizer:
    return Tokenizer(write_tokenizer(folder, **config))


def open_renamed(folder: Path, old: str, new: str) -> Tokenizer:
    path = write_tokenizer(folder) / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    return Tokenizer(folder)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "<fim_prefix>a = <fim_suffix>\nb<fim_middle>"),
        ({"fim_order": "psm"}, "<fim_prefix>a = <fim_suffix>\nb<fim_middle>"),
        ({"fim_order": "spm"}, "<fim_prefix><fim_suffix>\nb<fim_middle>a = "),
    ],
)
def test_the_gap_is_presented_in_the_order_the_model_was_trained_with(
    tmp_path: Path, config: dict[str, str], expected: str
) -> None:
    tokenizer = open_tokenizer(tmp_path, **config)
    infill = find(tokenizer)
    assert tokenizer.vocabulary.decode(infill.prompt(tokenizer, "a = ", "\nb", 100), False) == expected


def test_the_middle_ends_at_the_end_of_text_and_at_every_infilling_token(tmp_path: Path) -> None:
    assert find(open_renamed(tmp_path, "<|im_start|>", "<file_sep>")).end == {0, 1, 2, 3, 4}


def test_a_model_without_such_tokens_goes_on_with_the_prefix(tmp_path: Path) -> None:
    tokenizer = open_renamed(tmp_path, "<fim_middle>", "<other>")
    infill = find(tokenizer)
    assert not infill.sees_suffix
    assert infill.prompt(tokenizer, "x = re", "y", 100) == tokenizer.encode("x = re")
    prompt = tokenizer.encode("x = re")
    kept, taken = infill.heal(tokenizer, prompt, "x = re")
    assert kept + taken == prompt and tokenizer.decode(taken) == " re"
    assert len(infill.prompt(tokenizer, PREFIX, SUFFIX, 100)) <= 100


def test_an_unknown_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match="fim_order 'mps'"):
        find(open_tokenizer(tmp_path, fim_order="mps"))


@pytest.mark.parametrize("order", ["psm", "spm"])
@pytest.mark.parametrize("room", [20, 101, 400])
@pytest.mark.parametrize(("prefix", "suffix"), [(PREFIX, SUFFIX), (PREFIX, "\nb"), ("a", SUFFIX), ("a", "b"), ("", "")])
def test_what_is_far_from_the_gap_is_left_out(tmp_path: Path, order: str, room: int, prefix: str, suffix: str) -> None:
    tokenizer = open_tokenizer(tmp_path, fim_order=order)
    infill = find(tokenizer)
    tokens = infill.prompt(tokenizer, prefix, suffix, room)
    assert len(tokens) <= room
    text = tokenizer.vocabulary.decode(tokens, False)
    first, _, rest = text.removeprefix("<fim_prefix>").partition("<fim_suffix>")
    second, _, third = rest.partition("<fim_middle>")
    before, after = (first, second) if order == "psm" else (third, second)
    assert prefix.endswith(before) and suffix.startswith(after)
    assert before == prefix or prefix[: -len(before)].endswith("\n")  # a whole line
    wanted = len(tokenizer.encode(prefix)) + len(tokenizer.encode(suffix)) + 3
    if wanted <= room:
        assert (before, after) == (prefix, suffix)
    else:
        assert len(tokens) > 0.6 * room - 12  # what a whole line costs, and that the beginning moves in steps
        if suffix == SUFFIX and prefix == PREFIX and room > 100:
            assert 0.45 < len(tokenizer.encode(before)) / room < 0.78
            assert abs(len(tokenizer.encode(after)) / room - 0.25) < 0.03


@pytest.mark.parametrize("suffix", [SUFFIX, "\nb"])
def test_with_the_prefix_last_little_is_read_anew_when_one_types_on(tmp_path: Path, suffix: str) -> None:
    tokenizer = open_tokenizer(tmp_path, fim_order="spm")
    infill = find(tokenizer)
    text = "first_1 = 1\n" + "".join(f"    second_{i} = first_{i} + {i}\n" for i in range(30))
    prompts = [infill.prompt(tokenizer, text[:end], suffix, 300) for end in range(len(text))]
    anew = sum(len(b) - len(commonprefix([a, b])) for a, b in pairwise(prompts))
    assert anew < 0.05 * sum(map(len, prompts))


def test_where_a_long_prefix_begins_does_not_move_within_a_line(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path, fim_order="spm")
    infill = find(tokenizer)
    lines = [f"    second_{i} = first_{i} + {i}\n" for i in range(200)]
    beginnings = set()
    for count in range(100, 160, 2):
        text, within = "".join(lines[:count]), set()
        for typed in range(0, len(lines[count]), 4):
            prompt = tokenizer.vocabulary.decode(infill.prompt(tokenizer, text + lines[count][:typed], "", 600), False)
            within.add(prompt.partition("<fim_middle>")[2].partition("\n")[0])
        assert len(within) == 1, within
        beginnings |= within
    assert 3 < len(beginnings) < 20  # of sixty lines


def test_a_single_endless_line_is_cut_where_it_must_be(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path)
    infill = find(tokenizer)
    line = "".join(random.Random(0).choices(["first", "second", "hel", "größer", "日本", "🙂"], k=400))
    for room in range(30, 90):
        assert room - 8 < len(infill.prompt(tokenizer, line, "", room)) <= room


def test_text_that_spells_the_tokens_stays_text(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path)
    infill = find(tokenizer)
    tokens = infill.prompt(tokenizer, "".join(SPECIAL), "<fim_middle>", 400)
    assert [token for token in tokens if token in tokenizer.control] == [1, 2, 3]


# The forms that publishers tell

STARCODER = ["<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<filename>", "<reponame>"]
UTILS = Excerpt("utils.py", "def multiply(x, y):\n    return x * y\n")
CONFIG = Excerpt("config.py", "DEBUG = True\nMAX_VALUE = 100\n")
HERE = Surroundings("library", "example.py", (CONFIG, UTILS))
BEFORE, AFTER = "def calculate_sum(a, b):\n    ", "\n# Test the function\nresult = calculate_sum(5, 10)"
PUBLISHED = {
    "SantaCoder": (
        ["<|endoftext|>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>"],
        "<fim-prefix>{before}<fim-suffix>{after}<fim-middle>",
        "<fim-prefix>{before}<fim-suffix>{after}<fim-middle>",
    ),
    "StarCoder and Granite Code": (
        STARCODER,
        "<fim_prefix>{before}<fim_suffix>{after}<fim_middle>",
        "<fim_prefix><filename>example.py\n{before}<fim_suffix>{after}<fim_middle>",
    ),
    "StarCoder 2": (
        ["<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<repo_name>", "<file_sep>"],
        "<file_sep><fim_prefix>{before}<fim_suffix>{after}<fim_middle>",
        "<repo_name>library<file_sep>utils.py\ndef multiply(x, y):\n    return x * y\n"
        "<file_sep>config.py\nDEBUG = True\nMAX_VALUE = 100\n"
        "<file_sep><fim_prefix>example.py\n{before}<fim_suffix>{after}<fim_middle>",
    ),
    "Mellum": (
        STARCODER,
        "<fim_suffix>{after}<fim_prefix>{before}<fim_middle>",
        "<filename>utils.py\ndef multiply(x, y):\n    return x * y\n"
        "<filename>config.py\nDEBUG = True\nMAX_VALUE = 100\n"
        "<filename>example.py\n<fim_suffix>{after}<fim_prefix>{before}<fim_middle>",
    ),
    "Qwen2.5-Coder": (
        ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|repo_name|>", "<|file_sep|>"],
        "<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>",
        "<|repo_name|>library\n<|file_sep|>utils.py\ndef multiply(x, y):\n    return x * y\n"
        "<|file_sep|>config.py\nDEBUG = True\nMAX_VALUE = 100\n"
        "<|file_sep|>example.py\n<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>",
    ),
    "Granite 4": (
        ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|filename|>"],
        "<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>",
        "<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>",
    ),
    "CodeGemma": (
        ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_separator|>"],
        "<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>",
        "utils.py\ndef multiply(x, y):\n    return x * y\n<|file_separator|>"
        "config.py\nDEBUG = True\nMAX_VALUE = 100\n<|file_separator|>"
        "example.py\n<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>",
    ),
    "DeepSeek-Coder": (
        ["<|endoftext|>", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
        "<｜fim▁begin｜>{before}<｜fim▁hole｜>{after}<｜fim▁end｜>",
        "<｜fim▁begin｜>#utils.py\ndef multiply(x, y):\n    return x * y\n#config.py\nDEBUG = True\nMAX_VALUE = 100\n"
        "#example.py\n{before}<｜fim▁hole｜>{after}<｜fim▁end｜>",
    ),
    "Codestral": (
        ["<|endoftext|>", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"],
        "[SUFFIX]{after}[PREFIX]{before}",
        "[SUFFIX]{after}[PREFIX]+++++ utils.py\ndef multiply(x, y):\n    return x * y\n\n"
        "+++++ config.py\nDEBUG = True\nMAX_VALUE = 100\n\n+++++ example.py\n{before}",
    ),
}
"""Of models: the tokens, and what their publishers write for a file alone and for one among others."""


def make_vocabulary(folder: Path, special: list[str], *, divides_numbers: bool) -> Tokenizer:
    """A byte-level BPE that begins with these tokens, as those of code models do."""
    vocabulary = Vocabulary(models.BPE())
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False)
    parts = [pre_tokenizers.Digits(individual_digits=True), letters]
    vocabulary.pre_tokenizer = pre_tokenizers.Sequence(parts) if divides_numbers else letters
    vocabulary.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    vocabulary.train_from_iterator([UTILS.text, CONFIG.text, BEFORE, AFTER], trainer)
    vocabulary.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    return Tokenizer(folder)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_gap_is_presented_as_the_publisher_tells(tmp_path: Path, name: str) -> None:
    special, alone, among = PUBLISHED[name]
    tokenizer = make_vocabulary(tmp_path, special, divides_numbers=name != "Mellum")
    infill = find(tokenizer)
    for around, published in ((None, alone), (HERE, among)):
        tokens = infill.prompt(tokenizer, BEFORE, AFTER, 2000, around)
        text = published.format(before=BEFORE, after=AFTER)
        assert tokenizer.vocabulary.decode(tokens, skip_special_tokens=False) == text
        assert tokens == tokenizer.encode_template(text)  # in which the tokens' spellings count
    assert infill.end == {token for mark in special if (token := tokenizer.token_id(mark)) is not None}
    assert infill.sees_suffix


def test_codellama_s_suffix_begins_without_a_space_and_its_prefix_with_one(tmp_path: Path) -> None:
    """As in github.com/meta-llama/codellama, llama/generation.py, infilling_prompt_tokens."""
    vocabulary = Vocabulary.from_str(json.dumps(convert(GOLDEN_TOKENIZERS / "llama")))
    vocabulary.add_special_tokens(["▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"])
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer(tmp_path)
    pre, mid, suf, eot = (vocabulary.token_to_id(mark) for mark in ("▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"))
    infill = find(tokenizer)
    tokens = infill.prompt(tokenizer, "the cat", "the dog", 100)
    lead = tokenizer.encode("☺")
    whole = tokenizer.encode("☺the dog")
    assert whole[: len(lead)] == lead
    assert tokens == [*tokenizer.start, pre, *tokenizer.encode("the cat"), suf, *whole[len(lead) :], mid]
    assert tokenizer.name(tokens[len(tokenizer.start) + 1]).startswith("▁")
    assert not tokenizer.name(tokens[tokens.index(suf or 0) + 1]).startswith("▁")
    assert eot in infill.end
    engine, _ = make_engine(tokenizer, saying(tokenizer.encode("sat"), eot), vocab_size=vocabulary.get_vocab_size())
    assert text_of(engine.infill("the cat", "there", Options(temperature=0))) == " sat"  # a space in front is text here


def test_excerpts_have_a_quarter_and_what_matters_most_stands_next_to_the_gap(tmp_path: Path) -> None:
    special, *_ = PUBLISHED["Qwen2.5-Coder"]
    tokenizer = make_vocabulary(tmp_path, special, divides_numbers=True)
    excerpts = [Excerpt(f"{name}.py", f"{name} = 1\n" * 20) for name in "abcdef"]
    infill = find(tokenizer)
    tokens = infill.prompt(tokenizer, PREFIX * 5, SUFFIX * 5, 2000, Surroundings("library", "here.py", excerpts))
    assert 1500 < len(tokens) <= 2000
    files, place = tokenizer.vocabulary.decode(tokens, False).split("<|file_sep|>here.py\n")
    assert 300 < len(tokenizer.encode_template(files)) <= 500 + len(tokenizer.encode_template("<|repo_name|>library\n"))
    assert re.findall(r"(\w)\.py", files)[-1] == "a" and len(re.findall(r"\.py", files)) < 6
    assert place.startswith("<|fim_prefix|>")


def test_paths_and_excerpts_that_spell_tokens_stay_text(tmp_path: Path) -> None:
    special, *_ = PUBLISHED["Qwen2.5-Coder"]
    tokenizer = make_vocabulary(tmp_path, special, divides_numbers=True)
    around = Surroundings("<|repo_name|>", "<|file_sep|>", [Excerpt("<|fim_prefix|>", "<|fim_middle|>")])
    tokens = find(tokenizer).prompt(tokenizer, "a", "b", 400, around)
    control = [tokenizer.name(token) for token in tokens if token in tokenizer.control]
    assert control == [
        *["<|repo_name|>", "<|file_sep|>", "<|file_sep|>"],
        *["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ]


# A prefix that ends within a word


def plain_agreeing(tokenizer: Tokenizer, text: bytes) -> list[int]:
    contents = [tokenizer.content(token) for token in range(tokenizer.vocabulary.get_vocab_size())]
    return [
        i for i, content in enumerate(contents) if content and (content.startswith(text) or text.startswith(content))
    ]


def test_the_tokens_that_agree_with_what_is_typed_are_found(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path)
    for text in (b"re", b" returnx", b"\xe3\x81", b"\xff", b"\n    "):
        found = sorted(tokenizer.spelling.agreeing(text).tolist())
        assert found == plain_agreeing(tokenizer, text)
    assert len(plain_agreeing(tokenizer, b" f")) > 2
    assert tokenizer.content(tokenizer.token_id("<fim_middle>") or 0) == b""


@pytest.mark.parametrize(
    ("prefix", "word"),
    [
        ("x = retu", " retu"),
        ("def fi", " fi"),
        ("x = größ", " größ"),
        ("self.fir", "fir"),
        ("a = b\n    ", " "),
        ("日", "日"),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_with_the_prefix_at_the_end_its_last_word_is_chosen_again(
    tmp_path: Path, prefix: str, word: str, seed: int
) -> None:
    tokenizer = open_tokenizer(tmp_path, fim_order="spm")
    engine, session = make_engine(tokenizer, hashed)
    deltas = list(engine.infill(prefix, "\n", Options(seed=seed, max_tokens=12)))
    told = [token.id for delta in deltas for token in delta.tokens]
    before = tokenizer.encode(prefix)
    kept = next(n for n in range(len(before), -1, -1) if len(tokenizer.decode(before[:n])) <= len(prefix) - len(word))
    assert session.rows[0][: -len(told) + 1 or None][-kept - 1 :] == [
        tokenizer.token_id("<fim_middle>"),
        *before[:kept],
    ]
    assert prefix + text_of(deltas) == tokenizer.decode([*before[:kept], *told])


def test_of_what_is_no_identifier_only_the_last_token_is_chosen_again(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path, fim_order="spm")
    infill = find(tokenizer)
    for prefix in ("x" * 65, "a +="):
        prompt = infill.prompt(tokenizer, prefix, "", 200)
        assert infill.heal(tokenizer, prompt, prefix) == (prompt[:-1], prompt[-1:])
    prompt = infill.prompt(tokenizer, "", "", 200)
    assert infill.heal(tokenizer, prompt, "") == (prompt, [])


def test_with_the_middle_at_the_end_nothing_is_chosen_again(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path)
    engine, session = make_engine(tokenizer, hashed)
    deltas = list(engine.infill("x = re", "\n", Options(temperature=0, max_tokens=1)))
    assert session.rows[0][-1] == tokenizer.token_id("<fim_middle>")
    assert deltas[0].usage and deltas[0].usage.prompt_tokens == len(session.rows[0])


@pytest.mark.parametrize(
    ("suffix", "stop"),
    [
        ("\n    return x\n", ["\n    return x"]),
        ("\n\n    return x", ["\n    return x"]),
        ("):\n    return x\n", []),  # the line goes on behind the gap
        ("\n)\n", []),
        ("", []),
    ],
)
def test_a_gap_ends_where_the_line_behind_it_begins(suffix: str, stop: list[str]) -> None:
    assert line_behind(suffix) == stop
