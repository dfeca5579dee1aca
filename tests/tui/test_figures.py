"""The figures of several answers, while they are written."""

import pytest

from chatapp.generation import Delta, Guesses, Options, Timings, Token
from chatapp.tui.chat.status import Figures, StatusLine
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


def test_guesses_are_told_while_they_are_made() -> None:
    figures, nothing = Figures(), Timings(0.0, 0.0, 0.0, 0.0)
    tokens = tuple(Token(place, "x", None, (), 0.01) for place in range(4))
    figures.add([Delta("xxxx", 0, tokens, None, nothing, None, guesses=Guesses(120, 104, 2.345))])
    figures.add([Delta("xxxx", 0, tokens, "stop", nothing, None)])
    line = StatusLine()
    line.figures = figures
    assert "104/120 guessed" in line.speed(200).plain and "2.3× plain steps" in line.speed(200).plain
