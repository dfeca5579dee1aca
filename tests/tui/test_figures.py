"""The figures of several answers, while they are written."""

import pytest

from chatapp.generation import Options
from chatapp.tui.chat.status import Figures
from support.scripted_engine import PACE, ScriptedEngine


@pytest.mark.parametrize("n", [1, 3])
def test_the_first_token_of_each_answer_is_no_latency(n: int) -> None:
    figures = Figures()
    deltas = list(ScriptedEngine("one two three").complete("x", Options(n=n)))
    figures.add(deltas[:-1])
    assert figures.tokens == 4 * n - 1
    assert figures.latencies == [seconds for seconds in PACE[1:4] for _ in range(n)][:-1]


def test_answers_that_are_decoded_together_are_as_fast_as_all_of_them() -> None:
    figures = Figures()
    engine = ScriptedEngine(texts=("one two three", "one"))
    figures.add(list(engine.complete("x", Options(n=2)))[:-1])
    assert figures.tokens_per_second == pytest.approx(2 / sum(PACE[1:3]))
