"""Tokens that come quickly are told together; what is told, and what the cache holds, must not depend on that."""

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from scripted_session import hashed, make_engine, saying, text_of, usage_of, write_tokenizer

from backends import BackendError
from chatapp.generation import Delta, Options, generate
from chatapp.generation.tokenizer import Tokenizer

END = 0
MANY = Options(n=4, seed=2, temperature=2.0, max_tokens=30, stop=("e", "qu"))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "HOLD", 60.0)


def one_by_one(tokenizer: Tokenizer, options: Options, monkeypatch: pytest.MonkeyPatch) -> list[Delta]:
    with monkeypatch.context() as patch:
        patch.setattr(generate, "HOLD", 0.0)
        return list(make_engine(tokenizer)[0].complete("The quick", options))


def said(deltas: Iterable[Delta], index: int) -> list[tuple[object, ...]]:
    return [
        (delta.text, [(token.id, token.text) for token in delta.tokens], delta.finish_reason)
        for delta in deltas
        if delta.index == index
    ]


@pytest.mark.usefixtures("held")
def test_the_first_token_is_told_at_once_and_others_wait_for_more(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    deltas = engine.complete("The quick", Options(seed=1, max_tokens=9, logit_bias={END: -100}))
    next(deltas)
    assert len(session.calls) == 1
    next(deltas)
    assert len(session.calls) == 9
    assert len(list(deltas)) == 7


@pytest.mark.usefixtures("held")
def test_several_rows_say_what_they_say_one_by_one(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = one_by_one(tokenizer, MANY, monkeypatch)
    deltas = list(make_engine(tokenizer)[0].complete("The quick", MANY))
    lengths = {len(said(expected, index)) for index in range(4)}
    assert len(lengths) > 2 and {delta.finish_reason for delta in expected} >= {"stop", None}
    assert [said(deltas, index) for index in range(4)] == [said(expected, index) for index in range(4)]
    assert usage_of(deltas).completion_tokens == usage_of(expected).completion_tokens == len(expected)
    assert len(usage_of(deltas).latencies) == len(expected) - 4


@pytest.mark.usefixtures("held")
def test_what_was_computed_beyond_a_stop_string_is_forgotten(tokenizer: Tokenizer) -> None:
    reply = tokenizer.encode("one two three four five")
    engine, session = make_engine(tokenizer, saying(reply, END))
    deltas = list(engine.complete("count", Options(temperature=0, stop=("o th",))))
    prompt = tokenizer.encode("count")
    assert text_of(iter(deltas)) == "one tw"
    assert [delta.finish_reason for delta in deltas] == [None] * (len(deltas) - 1) + ["stop"]
    assert len(session.calls) > len(deltas) == usage_of(deltas).completion_tokens
    assert session.rows == [prompt + reply[: len(deltas)]]


@pytest.mark.usefixtures("held")
def test_closing_takes_back_what_was_not_told(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    deltas = engine.complete("The quick", Options(seed=1, max_tokens=9, logit_bias={END: -100}))
    told = [next(deltas).tokens[0].id for _ in range(3)]
    deltas.close()
    assert session.rows == [tokenizer.encode("The quick") + told]
    assert engine.last_usage and engine.last_usage.completion_tokens == 3
    assert len(engine.last_usage.latencies) == 2


@pytest.mark.usefixtures("held")
def test_what_was_said_before_a_failure_is_told_before_it(tokenizer: Tokenizer) -> None:
    def failing(tokens: Sequence[int], logits: np.ndarray) -> None:
        if len(tokens) == length + 4:
            raise BackendError("the device is gone")
        hashed(tokens, logits)

    length = len(tokenizer.encode("The quick"))
    engine, _ = make_engine(tokenizer, failing)
    deltas = engine.complete("The quick", Options(seed=1, logit_bias={END: -100}))
    told = list[Delta]()
    with pytest.raises(BackendError, match="the device is gone"):
        for delta in deltas:
            told.append(delta)
    assert len(told) == 4


def test_a_slow_model_s_tokens_are_told_as_they_come(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "HOLD", 1e-9)
    engine, session = make_engine(tokenizer)
    for count, _ in enumerate(engine.complete("The quick", Options(seed=1, max_tokens=9)), 1):
        assert len(session.calls) == count
