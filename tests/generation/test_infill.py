"""Fill-in-the-middle prompts, and recall of what the file itself says."""

import random
from pathlib import Path

import pytest

from chatapp.completion.request import recall
from chatapp.generation import Options
from chatapp.generation.errors import GenerationError
from chatapp.generation.text.infill import find, line_behind
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import SPECIAL, hashed, make_engine, text_of, write_tokenizer

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
    assert infill is not None
    assert tokenizer.vocabulary.decode(infill.prompt(tokenizer, "a = ", "\nb", 100), False) == expected


@pytest.mark.parametrize("spelling", [("<fim-", ">"), ("<|fim_", "|>")])
def test_other_spellings_of_the_tokens_are_known(tmp_path: Path, spelling: tuple[str, str]) -> None:
    path = write_tokenizer(tmp_path) / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    for name in ("prefix", "suffix", "middle"):
        text = text.replace(f"<fim_{name}>", name.join(spelling))
    path.write_text(text, encoding="utf-8")
    infill = find(Tokenizer(tmp_path))
    assert infill is not None
    assert (infill.prefix, infill.suffix, infill.middle) == (1, 2, 3)


def test_the_middle_ends_at_the_end_of_text_and_at_every_infilling_token(tmp_path: Path) -> None:
    infill = find(open_renamed(tmp_path, "<|im_start|>", "<file_sep>"))
    assert infill is not None
    assert infill.end == {0, 1, 2, 3, 4}


def test_a_model_without_such_tokens_cannot_infill(tmp_path: Path) -> None:
    assert find(open_renamed(tmp_path, "<fim_middle>", "<other>")) is None


def test_an_unknown_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match="fim_order 'mps'"):
        find(open_tokenizer(tmp_path, fim_order="mps"))


@pytest.mark.parametrize("order", ["psm", "spm"])
@pytest.mark.parametrize("room", [20, 101, 400])
@pytest.mark.parametrize(("prefix", "suffix"), [(PREFIX, SUFFIX), (PREFIX, "\nb"), ("a", SUFFIX), ("a", "b"), ("", "")])
def test_what_is_far_from_the_gap_is_left_out(tmp_path: Path, order: str, room: int, prefix: str, suffix: str) -> None:
    tokenizer = open_tokenizer(tmp_path, fim_order=order)
    infill = find(tokenizer)
    assert infill is not None
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
        assert len(tokens) > room - 12  # nothing but what a whole line costs is wasted
        if suffix == SUFFIX and prefix == PREFIX and room > 100:
            assert 0.6 < len(tokenizer.encode(before)) / room < 0.78


def test_a_single_endless_line_is_cut_where_it_must_be(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path)
    infill = find(tokenizer)
    assert infill is not None
    line = "".join(random.Random(0).choices(["first", "second", "hel", "größer", "日本", "🙂"], k=400))
    for room in range(30, 90):
        assert room - 8 < len(infill.prompt(tokenizer, line, "", room)) <= room


def test_text_that_spells_the_tokens_stays_text(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path)
    infill = find(tokenizer)
    assert infill is not None
    tokens = infill.prompt(tokenizer, "".join(SPECIAL), "<fim_middle>", 400)
    assert [token for token in tokens if token in tokenizer.control] == [1, 2, 3]


def plain_recall(prefix: str, suffix: str) -> tuple[int, str]:
    for length in range(len(prefix), 0, -1):
        key = prefix[-length:]
        before, after = prefix.rfind(key, 0, len(prefix) - 1), suffix.find(key)
        if before >= 0:
            return length, prefix[before + length :].split("\n")[0]
        if after >= 0:
            return length, suffix[after + length :].split("\n")[0]
    return 0, ""


def test_recall_tells_what_followed_the_same_text_before() -> None:
    prefix = "for item in items:\n    total += item.price\n\nfor item in others:\n    total += "
    assert recall(prefix, "") == (len("s:\n    total += "), "item.price")
    assert recall("x = comp", "y = comp_b\n") == (len(" = comp"), "_b")


def test_recall_finds_nothing_where_nothing_repeats() -> None:
    assert recall("abc", "def") == (0, "")
    assert recall("", "abc") == (0, "")


def test_recall_agrees_with_a_plain_search() -> None:
    chance = random.Random(0)
    for _ in range(3000):
        prefix, suffix = ("".join(chance.choices("ab\n", k=chance.randrange(12))) for _ in range(2))
        assert recall(prefix, suffix) == plain_recall(prefix, suffix), (prefix, suffix)


def test_recall_handles_a_long_file_of_one_letter() -> None:
    length, text = recall("a" * 100_000, "")
    assert (length, text) == (99_999, "a")


# A prefix that ends within a word


def test_the_tokens_that_begin_with_another_are_found(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(tmp_path)
    token = tokenizer.encode("re")[-1]
    found = tokenizer.beginning_with(token)
    expected = [
        other
        for other in range(tokenizer.vocabulary.get_vocab_size())
        if other not in tokenizer.control
        and (tokenizer.bytes_of(other) or b"").startswith(tokenizer.bytes_of(token) or b"?")
    ]
    assert token in found and len(found) > 1 and found == expected
    assert tokenizer.beginning_with(tokenizer.token_id("<fim_middle>") or 0) == []


@pytest.mark.parametrize("prefix", ["x = re", "def fi", "é", "a = b\n    ", "value", "日"])
@pytest.mark.parametrize("seed", range(4))
def test_with_the_prefix_at_the_end_its_last_token_is_chosen_again(tmp_path: Path, prefix: str, seed: int) -> None:
    tokenizer = open_tokenizer(tmp_path, fim_order="spm")
    engine, _ = make_engine(tokenizer, hashed)
    deltas = list(engine.infill(prefix, "\n", Options(seed=seed, max_tokens=5)))
    told = [token.id for delta in deltas for token in delta.tokens]
    before = tokenizer.encode(prefix)
    assert told[0] in tokenizer.beginning_with(before[-1])
    assert prefix + text_of(deltas) == tokenizer.decode([*before[:-1], *told])


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
