"""Measurements in foreign files: what cannot be is refused or left out, and no screen breaks on it."""

import math
from typing import Any

import pytest

from chatapp.evaluation.measurements import Answer, as_json
from chatapp.history import NotUnderstood
from chatapp.history.rows import of_lists


@pytest.mark.parametrize("latencies", [["a"], 5, "abc", [[]], [True], [-1.0], [math.inf], {"a": 1}, [10**400]])
def test_latencies_that_cannot_be_are_left_out(latencies: Any) -> None:
    answer = Answer.of({"latencies": latencies})
    assert answer.latencies == ()
    as_json(answer)


@pytest.mark.parametrize("value", [-1, 10**400, math.inf, 1e30])
def test_figures_that_cannot_be_are_left_out(value: Any) -> None:
    answer = Answer.of({"completion_tokens": value, "load_seconds": value})
    assert (answer.completion_tokens, answer.load_seconds) == (None, None)


@pytest.mark.parametrize("seconds", [-0.1, math.inf, math.nan, 10**400])
def test_tokens_that_took_no_time_that_can_be_are_refused(seconds: Any) -> None:
    with pytest.raises(NotUnderstood):
        of_lists([[1, "a", -0.5, seconds, []]], "a file")
