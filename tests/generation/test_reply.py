"""Figures of answers, and their rank."""

import math

import pytest

from chatapp.generation import Delta, Reply, Token
from chatapp.generation.delta import Timings
from chatapp.generation.reply import rank


def token(logprob: float | None, seconds: float = 0.02) -> Token:
    return Token(1, "a", logprob, (), seconds)


def reply(*logprobs: float | None) -> Reply:
    made = Reply()
    made.add_tokens([token(logprob) for logprob in logprobs])
    return made


def test_the_mean_is_that_of_the_tokens_whose_probability_is_known() -> None:
    assert reply(-1.0, None, -2.0).mean_logprob == -1.5
    assert reply(None).mean_logprob is None
    assert Reply().mean_logprob is None


def test_the_speed_leaves_out_the_first_token_which_waits_for_the_prompt() -> None:
    made = Reply()
    made.add_tokens([token(-1.0, 0.5), token(-1.0, 0.01)])
    made.add_tokens([token(-1.0, 0.03)])
    assert (len(made.tokens), made.time_to_first_token) == (3, 0.5)
    assert made.tokens_per_second == pytest.approx(50)
    assert made.percentile(95) == pytest.approx(0.029)


def test_one_token_has_no_speed_yet() -> None:
    assert reply(-1.0).tokens_per_second is None
    assert reply(-1.0).percentile(95) is None


def test_long_and_short_answers_are_ranked_by_their_mean_and_unknown_ones_come_last() -> None:
    assert rank([Reply(), reply(-1.0), reply(-0.5, -0.5, -0.5), reply(None), reply(-math.inf)]) == [2, 1, 4, 0, 3]


def test_equal_answers_keep_their_order() -> None:
    assert rank([reply(-1.0), reply(-0.5), reply(-1.0)]) == [1, 0, 2]


def test_deltas_bring_the_thinking_the_answer_and_the_end() -> None:
    made = Reply()
    no_time = Timings(0.0, 0.0, 0.0, 0.0)
    made.add(Delta("<think>so", 0, (token(None, 0.5),), None, no_time, None, "thinking"))
    made.add(Delta("</think>", 0, (token(None, 0.25),), None, no_time, None, "thinking"))
    assert made.finish_reason == "cancelled"
    made.add(Delta("4", 0, (token(None),), "stop", no_time, None))
    assert (made.thinking, made.text, made.finish_reason) == ("<think>so</think>", "4", "stop")
    assert (made.thinking_tokens, made.thinking_seconds, len(made.tokens)) == (2, 0.75, 3)


def test_a_reply_that_goes_on_counts_its_first_token_now_among_the_latencies_it_has() -> None:
    begun = [token(-1.0), token(-1.0)]
    anew, resumed = Reply(tokens=begun[:], begun=2), Reply(tokens=begun[:], begun=2, latencies=[0.5])
    assert not anew.is_heard
    for made in (anew, resumed):
        made.add_tokens([token(-1.0, 0.25), token(-1.0, 0.125)])
        assert made.is_heard
    assert (anew.time_to_first_token, anew.latencies) == (0.25, [0.125])
    assert resumed.latencies == [0.5, 0.25, 0.125]
