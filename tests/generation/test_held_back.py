"""Tokens that come quickly are told together; what is told, and what the cache holds, must not depend on that."""

import time
from collections.abc import Sequence

import numpy as np
import pytest

from backends import BackendError
from chatapp.generation import Delta, Options
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import hashed, make_engine, saying, text_of, usage_of, write_tokenizer

END = 0
HELD = 60.0
"""Seconds: until the last token, however slow this machine is."""
NINE = Options(seed=1, max_tokens=9, logit_bias={END: -100})


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def said(deltas: list[Delta], index: int) -> tuple[str, list[tuple[int, str]], str | None]:
    mine = [delta for delta in deltas if delta.index == index]
    tokens = [(token.id, token.text) for delta in mine for token in delta.tokens]
    return "".join(delta.text for delta in mine), tokens, mine[-1].finish_reason


def test_the_first_token_is_told_at_once_and_the_others_together(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, hold=HELD)
    deltas = engine.complete("The quick", NINE)
    first = next(deltas)
    assert (len(session.calls), len(first.tokens), first.finish_reason) == (1, 1, None)
    (others,) = deltas
    assert (len(session.calls), len(others.tokens), others.finish_reason) == (9, 8, "length")
    assert others.usage and others.usage.latencies == tuple(token.seconds for token in others.tokens)
    spent = first.timings.detokenising + others.timings.decode + others.timings.sampling
    assert spent == pytest.approx(sum(others.usage.latencies))


@pytest.mark.parametrize("stop", [(), ("e", "a b")])
def test_several_rows_say_what_they_say_one_by_one(tokenizer: Tokenizer, stop: tuple[str, ...]) -> None:
    options = Options(n=6, seed=2, temperature=3.0, top_k=0, max_tokens=30, logit_bias={END: 13}, stop=stop)
    together = list(make_engine(tokenizer, hold=HELD)[0].complete("The quick", options))
    single = list(make_engine(tokenizer, hold=0.0)[0].complete("The quick", options))
    expected = [said(single, index) for index in range(6)]
    assert len({len(tokens) for _, tokens, _ in expected}) > 2
    assert [said(together, index) for index in range(6)] == expected
    assert len(together) < len(single) == usage_of(single).completion_tokens == usage_of(together).completion_tokens
    assert len(usage_of(together).latencies) == len(single) - 6


def test_nothing_is_computed_beyond_a_stop_string(tokenizer: Tokenizer) -> None:
    reply = tokenizer.encode("one two three four five")
    engine, session = make_engine(tokenizer, saying(reply, END), hold=HELD)
    deltas = list(engine.complete("count", Options(temperature=0, stop=("o th",))))
    assert text_of(iter(deltas)) == "one tw"
    assert len(deltas) == 2
    assert len(session.calls) == usage_of(deltas).completion_tokens < len(reply)


def test_what_fills_a_gap_is_told_token_by_token(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, hold=HELD)
    for count, delta in enumerate(engine.infill("def add(", "):", Options(seed=1, max_tokens=5)), 1):
        assert (len(session.calls), len(delta.tokens)) == (count, 1)


def test_closing_leaves_in_the_cache_what_was_told(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, hold=HELD)
    deltas = engine.complete("The quick", Options(n=3, seed=1, max_tokens=9, logit_bias={END: -100}))
    told = [next(deltas) for _ in range(3)]
    said_first = next(deltas)
    deltas.close()
    assert len(said_first.tokens) == 8
    kept = [*told[0].tokens, *said_first.tokens][:-1]  # the last one is drawn, but not read
    assert session.rows == [tokenizer.encode("The quick") + [token.id for token in kept]]
    assert engine.last_usage and engine.last_usage.completion_tokens == 9 + 1 + 1


def test_what_was_said_before_a_failure_is_told_before_it(tokenizer: Tokenizer) -> None:
    def failing(tokens: Sequence[int], logits: np.ndarray) -> None:
        if len(tokens) == length + 4:
            raise BackendError("the device is gone")
        hashed(tokens, logits)

    length = len(tokenizer.encode("The quick"))
    engine, _ = make_engine(tokenizer, failing, hold=HELD)
    told = list[Delta]()
    with pytest.raises(BackendError, match="the device is gone"):
        for delta in engine.complete("The quick", NINE):
            told.append(delta)
    assert [len(delta.tokens) for delta in told] == [1, 3]


def test_a_slow_model_s_tokens_are_told_as_they_come(tokenizer: Tokenizer) -> None:
    def slow(tokens: Sequence[int], logits: np.ndarray) -> None:
        time.sleep(0.006)
        hashed(tokens, logits)

    engine, session = make_engine(tokenizer, slow, hold=0.01)  # the next one would be too late
    for count, _ in enumerate(engine.complete("The quick", NINE), 1):
        assert len(session.calls) == count
