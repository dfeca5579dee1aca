"""The ranker: what speaks for a candidate, and how sure it is."""

import json
from dataclasses import replace
from importlib import resources

import pytest

from chatapp.completion.candidates import Candidate
from chatapp.completion.matches import Match
from chatapp.completion.ranker import FEATURES, rank, read_weights

PLAIN = Candidate("value", logprob=-4.0)


def chance(candidate: Candidate, *others: Candidate) -> float:
    """The probability of a candidate beside others."""
    ranked = rank([candidate, *others], read_weights("model"))
    return next(probability for probability, each in ranked if each is candidate)


def test_probabilities_leave_something_for_none_of_them() -> None:
    ranked = rank([PLAIN, replace(PLAIN, text="y")], read_weights("model"))
    assert 0 < sum(probability for probability, _ in ranked) < 1
    assert ranked == sorted(ranked, key=lambda pair: -pair[0])
    assert rank([], read_weights("files")) == []


@pytest.mark.parametrize(
    "better",
    [
        replace(PLAIN, logprob=-1.0),
        replace(PLAIN, file=Match("value", 40, 1.0, first=True)),
        replace(PLAIN, other=Match("value", 40, 1.0, first=True)),
    ],
)
def test_what_speaks_for_a_candidate_makes_it_likelier(better: Candidate) -> None:
    assert chance(better) > 1.2 * chance(PLAIN)


@pytest.mark.parametrize("worse", [replace(PLAIN, fault="it does not parse"), replace(PLAIN, unknown=("nobody",))])
def test_what_speaks_against_a_candidate_makes_it_less_likely(worse: Candidate) -> None:
    assert chance(worse) < 0.8 * chance(PLAIN)


def test_a_longer_match_is_likelier_than_a_short_one() -> None:
    short, long = (Candidate("value", file=Match("value", length, 0.8, first=True)) for length in (4, 40))
    weights = read_weights("files")
    assert rank([long], weights)[0][0] > 0.3 > rank([short], weights)[0][0]


def test_another_candidate_takes_its_share() -> None:
    assert chance(PLAIN, replace(PLAIN, text="other", logprob=-0.1)) < chance(PLAIN)


@pytest.mark.parametrize("kind", ["model", "files"])
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_each_weight_is_of_a_feature_and_the_fit_tells_its_calibration(language: str, kind: str) -> None:
    stated = json.loads(resources.files("chatapp.completion").joinpath("ranker.json").read_text("utf-8"))[language]
    assert stated[kind]["features"].keys() <= FEATURES.keys()
    assert stated[kind]["calibration_error"] < 0.05
    held_out = {"jinja2", "starlette", "httpx", "uvicorn", "npm:commander", "npm:express", "npm:marked"}
    assert held_out.isdisjoint(stated["fitted on"]["packages"])


def test_python_and_javascript_have_weights_of_their_own() -> None:
    python = read_weights("model", ".py")
    assert python == read_weights("model", ".pyi") == read_weights("model")
    assert python != read_weights("model", ".ts") == read_weights("model", ".jsx") == read_weights("model", ".go")
