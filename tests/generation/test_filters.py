"""Filters and processors against transformers, and against llama.cpp's formulas where only it has them."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chatapp.generation.decoding.filters import Mirostat
from chatapp.generation.decoding.processors import Dry, History, ban_sequences, list_processors
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.options import ORDER, OptionError, Options
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import write_tokenizer

GOLDEN = json.loads((Path(__file__).parents[1] / "golden_sampling.json").read_text("utf-8"))
ALL: dict[str, Any] = dict(temperature=1.0, top_k=0, top_p=1.0)
"""Options under which every token may be drawn."""
Chances = dict[int, float]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def sampler(
    options: Options, *, prompt: Sequence[int] = (), size: int = 48, seed: int = 1, tokenizer: Tokenizer | None = None
) -> Sampler:
    return Sampler(options, seed=seed, index=0, prompt=prompt, vocab_size=size, tokenizer=tokenizer)


def kept(source: Sampler, logits: np.ndarray) -> Chances:
    """The tokens that may be drawn, with their probabilities."""
    candidates = source.choose(source.process(logits))
    weights = np.asarray(candidates.weights, np.float64)
    ids = np.arange(logits.size) if candidates.ids is None else candidates.ids[: weights.size]
    return {int(i): float(w / weights.sum()) for i, w in zip(ids, weights, strict=True) if w > 0}


def random_logits(size: int = 48, seed: int = 0, spread: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, size).astype(np.float32)


def softmax(logits: dict[int, float]) -> Chances:
    peak = max(logits.values())
    total = sum(math.exp(logit - peak) for logit in logits.values())
    return {token: math.exp(logit - peak) / total for token, logit in logits.items()}


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: str(case["options"]))
def test_what_is_left_is_what_transformers_leaves(case: dict[str, Any]) -> None:
    given = dict(case["options"])
    words = [tuple(ids) for ids in given.pop("bad_word_ids", [])]
    for row, expected in zip(GOLDEN["logits"], case["kept"], strict=True):
        source = sampler(Options(**ALL | given), prompt=GOLDEN["prompt"])
        if words:
            source.processors.append(lambda logits, history: ban_sequences(words, logits, history))
            source._buffer = np.empty(48, np.float32)
            source.history = History(GOLDEN["prompt"])
        found = kept(source, np.array(row, np.float32))
        assert found == pytest.approx({int(token): chance for token, chance in expected.items()}, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_top_n_sigma_is_llama_cpp_s_whatever_the_temperature(sigma: float, temperature: float) -> None:
    logits = random_logits()
    logits[[3, 7]] = -np.inf  # which its mean and deviation leave out
    possible = {i: float(logit) for i, logit in enumerate(logits) if logit > -math.inf}
    mean = sum(possible.values()) / len(possible)
    deviation = math.sqrt(sum((logit - mean) ** 2 for logit in possible.values()) / len(possible))
    least = max(possible.values()) - sigma * deviation
    expected = softmax({i: logit / temperature for i, logit in possible.items() if logit >= least})
    found = kept(sampler(Options(**ALL | dict(temperature=temperature, top_n_sigma=sigma))), logits)
    assert found == pytest.approx(expected, rel=1e-4)
    assert 1 <= len(found) < len(possible)


@pytest.mark.parametrize("threshold", [0.02, 0.05, 0.3, 0.5])
@pytest.mark.parametrize("top_k", [0, 9])
def test_xtc_leaves_out_the_obvious_but_the_least_likely_of_it(threshold: float, top_k: int) -> None:
    logits = random_logits(spread=1.5)
    before = kept(sampler(Options(**ALL | dict(top_k=top_k))), logits)
    obvious = sorted((i for i, chance in before.items() if chance >= threshold), key=lambda i: -before[i])
    left = {i: chance for i, chance in before.items() if i not in obvious[:-1]}
    expected = {i: chance / sum(left.values()) for i, chance in left.items()}
    options = Options(**ALL | dict(top_k=top_k, xtc_probability=1.0, xtc_threshold=threshold))
    assert kept(sampler(options), logits) == pytest.approx(expected, rel=1e-4)


def test_xtc_acts_as_often_as_it_is_told_to() -> None:
    logits = np.array([3, 3, 1, 0], np.float32)
    source = sampler(Options(**ALL | dict(xtc_probability=0.3)), size=4)
    acted = sum(len(kept(source, logits)) < 4 for _ in range(4000))
    assert abs(acted - 1200) < 4 * math.sqrt(4000 * 0.3 * 0.7)


@pytest.mark.parametrize(("reach", "exponent"), [(0.5, 1.0), (0.9, 2.0), (3.0, 0.5)])
@pytest.mark.parametrize("spread", [0.1, 2.0, 8.0])
def test_the_dynamic_temperature_follows_the_entropy_as_in_llama_cpp(
    reach: float, exponent: float, spread: float
) -> None:
    logits = random_logits(spread=spread)
    plain = softmax(dict(enumerate(logits.tolist())))
    entropy = -sum(chance * math.log(chance) for chance in plain.values() if chance > 0)
    low, high = max(0.0, 0.9 - reach), 0.9 + reach
    temperature = low + (high - low) * (entropy / math.log(logits.size)) ** exponent
    expected = softmax({i: logit / temperature for i, logit in enumerate(logits.tolist())})
    options = Options(**ALL | dict(temperature=0.9, dynamic_temperature=reach, dynamic_exponent=exponent))
    found = kept(sampler(options), logits)
    assert [found.get(i, 0.0) for i in expected] == pytest.approx(list(expected.values()), rel=1e-3, abs=1e-7)


def test_mirostat_learns_from_each_token_as_llama_cpp_s_second_version_does() -> None:
    target, rate, limit = 2.5, 0.2, 5.0
    source = sampler(Options(**ALL | dict(mirostat_tau=target, mirostat_eta=rate)))
    limits = set()
    for step in range(60):
        logits = random_logits(seed=step)
        chances = softmax(dict(enumerate(logits.tolist())))
        left = {i: chance for i, chance in chances.items() if -math.log2(chance) <= limit}
        left = left or {max(chances, key=lambda i: chances[i]): 1.0}
        expected = {i: chance / sum(left.values()) for i, chance in left.items()}
        candidates = source.choose(logits)
        weights = np.asarray(candidates.weights, np.float64)
        ids = np.arange(logits.size) if candidates.ids is None else candidates.ids
        found = {int(i): float(w / weights.sum()) for i, w in zip(ids, weights, strict=True)}
        assert found == pytest.approx(expected, rel=1e-4)
        token = candidates.draw(source.random.random())
        limit -= rate * (-math.log2(expected[token]) - target)
        limits.add(round(limit, 3))
    assert len(limits) > 20


def test_mirostat_brings_the_surprise_to_its_target() -> None:
    source = sampler(Options(**ALL | dict(mirostat_tau=3.0)), size=5000)
    surprises = []
    for step in range(400):
        candidates = source.choose(random_logits(5000, step, 3.0))
        candidates.draw(source.random.random())
        surprises.append(candidates.surprise or 0.0)
    assert np.mean(surprises[100:]) == pytest.approx(3.0, abs=0.3)


def plain_dry(tokens: Sequence[int], breaks: Callable[[int], bool]) -> dict[int, int]:
    """Of each token the longest end of the text after which it has come, by comparing them all."""
    found: dict[int, int] = {}
    for length in range(1, len(tokens)):
        end = list(tokens[-length:])
        if any(map(breaks, end)):
            break
        for start in range(len(tokens) - length):
            if list(tokens[start : start + length]) == end and not breaks(tokens[start + length]):
                found[tokens[start + length]] = length
    return found


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("breakers", [(), (" ",), (":", "\n", "(")])
def test_dry_finds_what_has_followed_the_end_of_the_text(
    tokenizer: Tokenizer, seed: int, breakers: tuple[str, ...]
) -> None:
    words = ["for", " i", " in", ":", "\n", "  ", "(", "x"]
    chance = np.random.default_rng(seed)
    tokens = tokenizer.encode("".join(chance.choice(words, 40)))
    dry = Dry(Options(dry_multiplier=1.0, dry_breakers=breakers), tokenizer)

    def breaks(token: int) -> bool:
        return any(text.encode() in tokenizer.content(token) for text in breakers)

    assert dry.repeats(tokens) == plain_dry(tokens, breaks)


def test_dry_s_penalty_grows_with_the_length_as_in_llama_cpp() -> None:
    prompt = [1, 2, 3, 4, 9, 2, 3, 7, 8, 1, 2, 3]
    options = Options(**ALL | dict(dry_multiplier=0.8, dry_base=1.75, dry_allowed_length=2, dry_breakers=()))
    source = sampler(options, prompt=prompt, size=10)
    expected = np.zeros(10, np.float32)
    expected[4] = -0.8 * 1.75 ** (3 - 2)
    expected[7] = -0.8 * 1.75 ** (2 - 2)
    np.testing.assert_allclose(source.process(np.zeros(10, np.float32)), expected, rtol=1e-6)
    source.add(4)
    assert source.process(np.zeros(10, np.float32)).argmin() == 9  # what the reply says counts too


def test_dry_spares_the_rest_of_a_word_where_it_is_told_to(tokenizer: Tokenizer) -> None:
    begun, *letters, comma = (tokenizer.spelling.agreeing(text)[0] for text in (b" f", b"q", b"z", b","))
    assert tokenizer.content(begun).startswith(b" f")
    following, prompt = letters[1], [begun, *letters, comma, begun, letters[0]]
    given = ALL | dict(dry_multiplier=2.0, dry_breakers=())
    for spared in (False, True):
        options = Options(**given | dict(dry_whole_words=spared))
        logits = sampler(options, prompt=prompt, size=400, tokenizer=tokenizer).process(np.zeros(400, np.float32))
        assert bool(logits[following] == 0) is spared


def test_a_word_that_repeats_itself_is_not_spared(tokenizer: Tokenizer) -> None:
    (letter,) = tokenizer.encode("q")
    options = Options(**ALL | dict(dry_multiplier=2.0, dry_breakers=(), dry_whole_words=True))
    logits = sampler(options, prompt=[letter] * 9, size=400, tokenizer=tokenizer).process(np.zeros(400, np.float32))
    assert logits[letter] < 0


def test_a_very_long_repetition_does_not_overflow(tokenizer: Tokenizer) -> None:
    options = Options(**ALL | dict(dry_multiplier=100.0, dry_base=4.0))
    logits = sampler(options, prompt=[7] * 3000, size=10).process(np.zeros(10, np.float32))
    assert -np.inf < logits[7] < -1e20 and not logits[[0, 1, 2]].any()


def test_bad_words_are_not_written_with_or_without_a_space_before(tokenizer: Tokenizer) -> None:
    options = Options(**ALL | dict(bad_words=("hello", "fox jumps")))
    for text, word in [("says", " hello"), ("(", "hello"), ("brown", " fox jumps")]:
        *begun, last = tokenizer.encode(word)
        source = sampler(options, prompt=[*tokenizer.encode(text), *begun], size=400, tokenizer=tokenizer)
        banned = np.flatnonzero(np.isinf(source.process(np.zeros(400, np.float32))))
        assert last in banned and banned.size <= 4


def test_filters_act_in_the_order_that_is_asked_for() -> None:
    logits = random_logits(spread=1.0)
    given = ALL | dict(temperature=2.5, min_p=0.3, top_k=20)
    usual, sooner = (
        kept(sampler(Options(**given | dict(sampler_order=order))), logits) for order in ((), ("min_p", "temperature"))
    )
    plain = softmax(dict(enumerate(logits.tolist())))
    best = max(plain.values())
    assert set(sooner) == {i for i, chance in plain.items() if chance >= 0.3 * best} < set(usual)
    for order in (("xtc", *ORDER[:-1]), ORDER[::-1]):
        found = kept(sampler(Options(**given | dict(sampler_order=order, typical_p=0.9, top_n_sigma=2))), logits)
        assert found and sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "given",
    [
        {"typical_p": 0.7},
        {"top_n_sigma": 1.0},
        {"xtc_probability": 1.0, "xtc_threshold": 0.05},
        {"dynamic_temperature": 0.8},
        {"no_repeat_ngram_size": 2},
        {"dry_multiplier": 4.0, "dry_breakers": ()},
        {"top_k": 9, "typical_p": 0.8, "sampler_order": ("typical_p",)},
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_what_is_left_says(given: dict[str, Any]) -> None:
    logits, draws = random_logits(spread=1.0), 8000
    options, prompt = Options(**ALL | given), [1, 2, 3, 1, 2]
    expected = kept(sampler(options, prompt=prompt), logits)
    without = kept(sampler(Options(**ALL), prompt=prompt), logits)
    source = sampler(options, prompt=prompt)
    counts = Counter(source.choose(source.process(logits)).draw(source.random.random()) for _ in range(draws))
    assert counts.keys() <= expected.keys()

    def chi_square(chances: Chances) -> float:
        return sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in chances.items())

    assert chi_square(expected) < len(expected) - 1 + 4 * math.sqrt(2 * len(expected))
    assert chi_square(without) > len(without) - 1 + 4 * math.sqrt(2 * len(without))  # the test would notice


def test_what_is_off_costs_nothing() -> None:
    source = sampler(Options())
    assert len(source.filters) == 3 and not source.processors
    assert list_processors(Options(), 9, None) == []
    assert not any(isinstance(act, Mirostat) for act in source.filters)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("typical_p", 0, "above 0"),
        ("xtc_threshold", 0.7, "at most 0.5"),
        ("xtc_probability", 2, "from 0"),
        ("dry_allowed_length", 0, "1 or more"),
        ("dry_base", 0.5, "from 1"),
        ("no_repeat_ngram_size", 1.5, "a whole number"),
        ("mirostat_eta", 0, "above 0"),
        ("dry_breakers", "x", "a list of non-empty texts"),
        ("bad_words", ("",), "non-empty"),
        ("dry_whole_words", 2, "true or false"),
        ("sampler_order", ("top_q",), "of temperature, top_k"),
        ("sampler_order", ("top_k", "top_k"), "without duplicates"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(option: str, value: Any, allowed: str) -> None:
    with pytest.raises(OptionError, match=f"^{option} must be .*{allowed}"):
        Options(**{option: value})


def test_bad_words_without_a_tokenizer_are_refused() -> None:
    with pytest.raises(OptionError, match="bad_words need a tokenizer"):
        sampler(Options(bad_words=("x",)))
