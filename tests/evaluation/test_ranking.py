"""Figures of answers, and their rank."""

import math

import pytest

from chatapp.evaluation.ranking import Score, ranked
from chatapp.generation import Token


def token(logprob: float | None, seconds: float = 0.02) -> Token:
    return Token(1, "a", logprob, (), seconds)


def score(*logprobs: float | None) -> Score:
    made = Score()
    made.add(token(logprob) for logprob in logprobs)
    return made


def test_the_mean_is_that_of_the_tokens_whose_probability_is_known() -> None:
    assert score(-1.0, None, -2.0).mean == -1.5
    assert score(None).mean is None
    assert Score().mean is None


def test_the_speed_leaves_out_the_first_token_which_waits_for_the_prompt() -> None:
    made = Score()
    made.add([token(-1.0, 0.5), token(-1.0, 0.01)])
    made.add([token(-1.0, 0.03)])
    assert (made.tokens, made.time_to_first_token) == (3, 0.5)
    assert made.tokens_per_second == pytest.approx(50)
    assert made.p95 == pytest.approx(0.029)


def test_one_token_has_no_speed_yet() -> None:
    assert score(-1.0).tokens_per_second is None
    assert score(-1.0).p95 is None


def test_long_and_short_answers_are_ranked_by_their_mean_and_unknown_ones_come_last() -> None:
    assert ranked([Score(), score(-1.0), score(-0.5, -0.5, -0.5), score(None), score(-math.inf)]) == [2, 1, 4, 0, 3]


def test_equal_answers_keep_their_order() -> None:
    assert ranked([score(-1.0), score(-0.5), score(-1.0)]) == [1, 0, 2]
