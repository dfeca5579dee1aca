"""Sampling against a plain reference that sorts the whole vocabulary in double precision."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from chatapp.generation.decoding.candidates import Top, draw, draw_few, largest
from chatapp.generation.decoding.sampling import Sampler, log_probability
from chatapp.generation.errors import GenerationError
from chatapp.generation.options import OptionError, Options

CASES: list[dict[str, Any]] = [
    {},
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
    {"temperature": 0.3, "top_k": 5, "top_p": 1.0},
    {"temperature": 1.5, "top_k": 0, "top_p": 0.5},
    {"temperature": 2.0, "top_k": 0, "top_p": 0.999},
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.05},
    {"temperature": 0.7, "top_k": 1000, "top_p": 0.9, "min_p": 0.01},
    {"temperature": 1.0, "top_k": 3, "top_p": 0.4},
    {"temperature": 1.0, "top_k": 1, "top_p": 1.0},
    {"temperature": 1.0, "top_k": 10**6, "top_p": 0.8},
]


def reference(logits: np.ndarray, options: Options) -> dict[int, float]:
    """Every candidate with its probability."""
    order = sorted(range(logits.size), key=lambda i: (-logits[i], i))
    order = [i for i in order if logits[i] > -math.inf][: options.top_k or None]
    scaled = logits[order].astype(np.float64) / options.temperature
    probabilities = np.exp(scaled - scaled[0])
    probabilities /= probabilities.sum()
    count, reached = len(order), 0.0
    if options.top_p < 1:
        count = 0
        while reached < options.top_p and count < len(order):
            reached, count = reached + probabilities[count], count + 1
    kept = [i for i in range(count) if probabilities[i] >= options.min_p * probabilities[0]]
    total = probabilities[kept].sum()
    return {order[i]: float(probabilities[i] / total) for i in kept}


def chosen(logits: np.ndarray, options: Options, top: Top | None = None) -> dict[int, float]:
    candidates = sampler(options, size=logits.size).choose(logits, top)
    weights = np.array(candidates.weights)
    places = np.arange(logits.size) if candidates.ids is None else candidates.ids[: weights.size]
    total = weights.sum(dtype=np.float64)
    return {int(i): float(w / total) for i, w in zip(places, weights, strict=True) if w > 0}


def random_logits(size: int, seed: int = 0, spread: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, size).astype(np.float32)


def sampler(options: Options, *, seed: int = 1, index: int = 0, prompt: tuple[int, ...] = (), size: int = 8) -> Sampler:
    return Sampler(options, seed=seed, index=index, prompt=prompt, vocab_size=size)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1, 7, 400, 20011])
def test_candidates_and_probabilities_are_those_of_a_full_sort(size: int, case: dict[str, Any]) -> None:
    logits, options = random_logits(size), Options(**case)
    expected, actual = reference(logits, options), chosen(logits, options)
    assert actual.keys() == expected.keys()
    assert actual == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ties_and_forbidden_tokens_are_settled_as_by_a_full_sort(case: dict[str, Any]) -> None:
    logits = np.round(random_logits(5000, spread=1.0))  # some nine different values
    logits[np.random.default_rng(1).random(5000) < 0.3] = -np.inf
    expected, actual = reference(logits, Options(**case)), chosen(logits, Options(**case))
    assert actual.keys() == expected.keys()


@pytest.mark.parametrize("top_k", [1, 3, 40, 64, 65])
def test_what_the_runtime_found_largest_saves_the_search_and_changes_nothing(top_k: int) -> None:
    logits = np.round(random_logits(5000), 1)
    ids = largest(logits, 64)
    top = ids, logits[ids]
    for options in Options(top_k=top_k), Options(top_k=top_k, top_p=0.5, min_p=0.2), Options(temperature=0):
        with_top, without = sampler(options, size=5000), sampler(options, size=5000)
        drawn = [with_top.sample(logits, top) for _ in range(50)]
        assert drawn == [without.sample(logits) for _ in range(50)]
    assert chosen(logits, Options(top_k=top_k), top) == chosen(logits, Options(top_k=top_k))


def test_penalties_and_biases_are_not_passed_over_for_what_the_runtime_found_largest() -> None:
    logits = np.array([0, 3, 2, 1], np.float32)
    top = np.array([1, 2]), np.array([3, 2], np.float32)
    assert sampler(Options(temperature=0, logit_bias={3: 9.0}), size=4).sample(logits, top) == 3
    assert sampler(Options(top_k=1, presence_penalty=5), prompt=(1,), size=4).sample(logits, top) == 1  # of the reply
    assert sampler(Options(top_k=1, repetition_penalty=5), prompt=(1,), size=4).sample(logits, top) == 2


def test_a_wide_nucleus_is_exact_though_the_likeliest_256_do_not_suffice() -> None:
    logits, options = random_logits(20011, spread=0.5), Options(temperature=1.0, top_k=0, top_p=0.9)
    actual = chosen(logits, options)
    assert len(actual) > 10_000
    assert actual.keys() == reference(logits, options).keys()


@pytest.mark.parametrize("count", [1, 2, 40, 300, 5000, 6000])
@pytest.mark.parametrize("size", [5000, 4999, 5063])
def test_largest_is_the_beginning_of_a_stable_sort(size: int, count: int) -> None:
    logits = np.round(random_logits(size) * 8)
    logits[-1] = 100
    assert largest(logits, count).tolist() == np.argsort(-logits, kind="stable")[:count].tolist()


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[3], CASES[5], {"top_k": 4, "temperature": 1.3}], ids=str)
def test_tokens_are_drawn_as_often_as_their_probability_says(case: dict[str, Any]) -> None:
    logits, options, draws = random_logits(60, spread=1.0), Options(**case), 20_000
    source = sampler(options, size=60)
    counts = Counter(source.sample(logits) for _ in range(draws))
    expected = reference(logits, options)
    assert counts.keys() <= expected.keys()
    chi_square = sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in expected.items())
    freedom = len(expected) - 1
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)


def test_a_large_vocabulary_is_drawn_from_as_often_as_its_probabilities_say() -> None:
    logits = random_logits(10_000, spread=1.0)
    source = sampler(Options(temperature=1.0, top_k=0, top_p=1.0), size=10_000)
    counts = np.bincount([source.sample(logits) for _ in range(20_000)], minlength=10_000)
    probabilities = np.exp(logits.astype(np.float64))
    groups = 20_000 * (probabilities / probabilities.sum()).reshape(50, 200).sum(1)
    chi_square = ((counts.reshape(50, 200).sum(1) - groups) ** 2 / groups).sum()
    assert chi_square < 49 + 4 * math.sqrt(2 * 49)


def test_drawing_never_lands_on_a_weight_of_zero() -> None:
    weights = np.zeros(10_000, np.float32)
    weights[[3, 5000, 9000]] = 1
    chances = [0.0, 1 / 3, 0.5, 2 / 3, 1 - 2**-53]
    assert {draw(weights, chance) for chance in chances} == {3, 5000, 9000}
    assert {draw(weights[:4000], chance) for chance in chances} == {3}
    assert {draw_few([0.0, 1.0, 1.0, 0.0], chance) for chance in chances} == {1, 2}


def test_greedy_takes_the_likeliest_and_the_first_of_equals() -> None:
    logits = np.array([0, 2, 5, 5, 1], np.float32)
    assert sampler(Options(temperature=0), size=5).sample(logits) == 2


@pytest.mark.parametrize("options", [Options(temperature=0), Options(), Options(top_k=0, top_p=1.0)], ids=str)
def test_damaged_logits_are_refused(options: Options) -> None:
    for bad in (np.nan, np.inf):
        logits = random_logits(20_000)
        logits[7777] = bad
        with pytest.raises(GenerationError, match="not numbers"):
            sampler(options, size=20_000).sample(logits)


@pytest.mark.parametrize("options", [Options(temperature=0), Options(), Options(top_k=0)], ids=str)
def test_no_token_left_is_said_plainly(options: Options) -> None:
    with pytest.raises(GenerationError, match="no token can follow"):
        sampler(options).sample(np.full(8, -np.inf, np.float32))


def test_very_unlikely_tokens_at_a_very_low_temperature_do_not_overflow() -> None:
    logits = np.array([1, 0, np.finfo(np.float32).min], np.float32)
    assert sampler(Options(temperature=0.0001, top_k=0), size=3).sample(logits) == 0


def test_the_same_seed_gives_the_same_tokens_and_another_seed_others() -> None:
    logits = random_logits(1000, spread=1.0)

    def run(seed: int, index: int) -> list[int]:
        source = sampler(Options(), seed=seed, index=index, size=1000)
        return [source.sample(logits) for _ in range(20)]

    assert run(1, 0) == run(1, 0)
    assert len({tuple(run(1, 0)), tuple(run(2, 0)), tuple(run(1, 1)), tuple(run(2, 1))}) == 4


def test_the_logits_given_are_left_as_they_are() -> None:
    logits = random_logits(500)
    before = logits.copy()
    logits.flags.writeable = False
    for options in (
        Options(temperature=0),
        Options(),
        Options(top_k=0),
        Options(logit_bias={3: 5}, presence_penalty=1),
    ):
        sampler(options, prompt=(1, 2, 3), size=500).sample(logits)
    assert (logits == before).all()


def test_penalties_and_bias_are_those_of_their_formulas() -> None:
    options = Options(
        temperature=0,
        repetition_penalty=1.5,
        presence_penalty=0.25,
        frequency_penalty=0.5,
        logit_bias={1: 2.0, 6: -math.inf},
    )
    source = sampler(options, prompt=(0, 3, 3))
    logits = np.array([2, -2, 4, -1, 0, 1, 9, 3], np.float32)
    for token in (2, 2, 5):
        source.add(token)
    expected = [2 / 1.5, 0, 4 / 1.5 - 0.25 - 2 * 0.5, -1 * 1.5, 0, 1 / 1.5 - 0.25 - 0.5, -math.inf, 3]
    np.testing.assert_allclose(source.process(logits), expected, rtol=1e-6)


def test_sampled_tokens_are_penalised_from_then_on() -> None:
    source = sampler(Options(temperature=0, frequency_penalty=1.0))
    logits = np.array([0, 0, 2.5, 0, 0, 2, 0, 0], np.float32)
    assert [source.sample(logits) for _ in range(5)] == [2, 5, 2, 5, 2]


def test_penalties_keep_count_of_many_different_tokens() -> None:
    source = sampler(Options(temperature=0, presence_penalty=50), prompt=tuple(range(10)), size=1000)
    assert [source.sample(-np.arange(1000, dtype=np.float32) / 1000) for _ in range(900)] == list(range(900))


def test_a_bias_for_a_token_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(OptionError, match="token 8, this model has only 8"):
        sampler(Options(logit_bias={8: 1.0}))


@pytest.mark.parametrize("size", [3000, 151936])
@pytest.mark.parametrize("known", [False, True])
def test_log_probabilities_are_the_model_s_own_with_the_likeliest_first(size: int, known: bool) -> None:
    logits = random_logits(size)
    exact = logits.astype(np.float64) - np.log(np.exp(logits.astype(np.float64)).sum())
    ids = largest(logits, 8)
    top, weights = ((ids, logits[ids]), np.empty_like(logits)) if known else (None, None)
    logprob, best = log_probability(logits, 17, 5, top, weights)
    assert logprob == pytest.approx(exact[17], abs=1e-5)
    assert [token for token, _ in best] == np.argsort(-exact)[:5].tolist()
    assert [p for _, p in best] == pytest.approx(sorted(exact)[:-6:-1], abs=1e-5)
    assert log_probability(logits, 17, 0, top, weights) == (logprob, [])
    assert [token for token, _ in log_probability(logits, 17, 20, top, weights)[1]] == np.argsort(-exact)[:20].tolist()


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("temperature", -1, "0 \\(greedy\\) or from 0.0001 to 100"),
        ("temperature", math.nan, "0 \\(greedy\\)"),
        ("temperature", "hot", "0 \\(greedy\\)"),
        ("top_k", -1, "0 \\(off\\) or more"),
        ("top_k", 2.5, "a whole number"),
        ("top_p", 7, "above 0 and at most 1, not 7"),
        ("top_p", 0, "above 0"),
        ("min_p", 1, "below 1"),
        ("repetition_penalty", 0, "from 0.01 to 100"),
        ("presence_penalty", math.inf, "from -100 to 100"),
        ("frequency_penalty", None, "from -100 to 100"),
        ("logit_bias", {-1: 2.0}, "token ids"),
        ("logit_bias", {1: math.nan}, "numbers below infinity"),
        ("stop", "END", "a list of non-empty texts"),
        ("stop", 5, "a list of non-empty texts"),
        ("logit_bias", 5, "biases by token ids"),
        ("stop", ("a", ""), "non-empty"),
        ("max_tokens", 0, "1 or more"),
        ("seed", -1, "from 0 to"),
        ("n", 0, "from 1 to 64"),
        ("n", True, "a whole number"),
        ("logprobs", 21, "from 0 to 20"),
    ],
)
def test_an_option_out_of_range_is_refused_by_name(option: str, value: object, allowed: str) -> None:
    values: dict[str, Any] = {option: value}
    with pytest.raises(OptionError, match=f"^{option} must be .*{allowed}"):
        Options(**values)
