"""Replies that another engine has begun: they go on as that one would have gone on."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from chatapp.generation import Delta, Options
from chatapp.generation.engine import Engine
from chatapp.generation.partial_reply import PartialReply, can_resume
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import ScriptedSession, hashed, write_tokenizer

GOING = {0: -100}
WAYS = [
    Options(temperature=0, max_tokens=30, logit_bias=GOING),
    Options(temperature=1.2, seed=7, max_tokens=30, logit_bias=GOING),
    Options(temperature=1.0, seed=0, max_tokens=300, logit_bias=GOING, repetition_penalty=1.3, presence_penalty=0.5),
    Options(temperature=1.0, seed=3, max_tokens=25, xtc_probability=0.5, xtc_threshold=0.02, logit_bias=GOING),
    Options(temperature=0.9, seed=5, max_tokens=60, stop=("e", "a1"), logit_bias=GOING),
    Options(temperature=1.0, seed=11, max_tokens=20, logprobs=2, logit_bias=GOING),
    Options(temperature=1.0, seed=2, max_tokens=40, speculate=True, logit_bias=GOING),
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def opened(tokenizer: Tokenizer) -> Engine:
    return Engine(ScriptedSession(hashed, vocab_size=400, context_length=1000), tokenizer, hold=0.0)


def said(deltas: Iterator[Delta]) -> tuple[str, list[int], list[float | None], str | None]:
    every = list(deltas)
    tokens = [token for delta in every for token in delta.tokens]
    text = "".join(delta.text for delta in every)
    return text, [one.id for one in tokens], [one.logprob for one in tokens], every[-1].finish_reason


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("place", [1, 2, 9, 280])
def test_a_reply_goes_on_from_its_tokens_as_it_would_have_without_a_break(
    tokenizer: Tokenizer, options: Options, place: int
) -> None:
    whole = said(opened(tokenizer).complete("The quick fox", options))
    told = PartialReply(whole[1][:place])
    engine = opened(tokenizer)
    assert said(engine.complete("The quick fox", options, told)) == whole
    assert engine.last_usage and engine.last_usage.completion_tokens == len(whole[1])


def test_what_is_said_again_is_read_at_once(tokenizer: Tokenizer) -> None:
    options = Options(temperature=0, max_tokens=300, logit_bias=GOING)
    tokens = said(opened(tokenizer).complete("hello", options))[1]
    session = ScriptedSession(hashed, vocab_size=400, context_length=1000)
    engine = Engine(session, tokenizer, hold=0.0)
    assert said(engine.complete("hello", options, PartialReply(tokens[:298])))[1] == tokens
    assert [count for _, count in session.calls] == [2, 256, 42, 1]


def test_it_is_read_at_once_beside_other_replies_too(tokenizer: Tokenizer) -> None:
    options = Options(temperature=0, max_tokens=60, logit_bias=GOING)
    whole, other = (said(opened(tokenizer).complete(text, options)) for text in ("hello", "x"))
    engine, found = opened(tokenizer), dict[str, Sequence[object]]()
    asked = {"hello": PartialReply(whole[1][:50]), "x": PartialReply(), "hello ": PartialReply()}

    def draw(text: str) -> None:
        found[text] = said(engine.complete(text, options, asked[text]))

    threads = [threading.Thread(target=draw, args=(text,)) for text in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found["hello"] == whole and found["x"] == other


def test_a_seed_that_nobody_has_chosen_goes_on_too(tokenizer: Tokenizer) -> None:
    options = Options(temperature=1.5, max_tokens=40, logit_bias=GOING)
    whole = said(opened(tokenizer).complete("hello", options, PartialReply(seed=99)))
    assert said(opened(tokenizer).complete("hello", options, PartialReply(whole[1][:13], 99))) == whole


def test_replies_of_which_more_is_remembered_than_tokens_are_known() -> None:
    assert can_resume(Options())
    assert not any(map(can_resume, (Options(n=2), Options(num_beams=2), Options(mirostat_tau=5))))
