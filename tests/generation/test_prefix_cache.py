"""The cache between turns: what is shared with the next prompt is not read again, and never wrongly."""

from collections.abc import Sequence

import numpy as np
import pytest

from backends.rereading import PART
from chatapp.generation import GenerationError, Options, prompt_cache
from chatapp.generation.prompt_cache import MOST
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import hashed, make_engine, text_of, usage_of, write_tokenizer

GREEDY = Options(temperature=0, max_tokens=12)
END = 0


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def test_the_next_turn_reads_only_what_is_new_and_says_the_same(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    first = text_of(engine.complete("The quick brown fox", GREEDY))
    session.calls.clear()
    prompt = "The quick brown fox jumps over"
    again = list(engine.complete(prompt, GREEDY))
    shared = len(tokenizer.encode("The quick brown fox"))
    assert usage_of(again).cached_tokens == shared
    assert session.calls[0] == (1, len(tokenizer.encode(prompt)) - shared)
    fresh, _ = make_engine(tokenizer)
    assert text_of(iter(again)) == text_of(fresh.complete(prompt, GREEDY)) != first


def test_the_same_prompt_again_reads_one_token(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    first = text_of(engine.complete("The quick brown fox", GREEDY))
    session.calls.clear()
    assert text_of(engine.complete("The quick brown fox", GREEDY)) == first
    assert session.calls[0] == (1, 1)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("after", range(9))
def test_closing_at_any_point_leaves_a_cache_that_the_next_turn_can_trust(
    tokenizer: Tokenizer, n: int, after: int
) -> None:
    options = Options(n=n, seed=1, max_tokens=3 * n, temperature=1.5, logit_bias={END: -100})
    engine, session = make_engine(tokenizer)
    deltas = engine.complete("The quick brown fox", options)
    for _ in range(after):
        next(deltas, None)
    deltas.close()
    assert session.batch <= 1
    follow_up = "The quick brown fox jumps"
    fresh, _ = make_engine(tokenizer)
    assert text_of(engine.complete(follow_up, GREEDY)) == text_of(fresh.complete(follow_up, GREEDY))
    if after:
        assert engine.last_usage is not None and engine.last_usage.cached_tokens


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("after", [1, 3, 4, 7, 100])
def test_the_next_turn_can_go_on_from_the_first_row_that_was_being_written(
    tokenizer: Tokenizer, n: int, after: int
) -> None:
    letters = [tokenizer.encode(letter)[0] for letter in "QZXWVK"]  # which never merge: text and tokens agree

    def fill(tokens: Sequence[int], logits: np.ndarray) -> None:
        hashed(tokens, logits)
        logits[letters] += 100

    engine, session = make_engine(tokenizer, fill)
    deltas = engine.complete("QQ", Options(n=n, seed=1, max_tokens=6, temperature=2.0))
    told = [delta for _, delta in zip(range(after), deltas, strict=False)]
    deltas.close()
    held = tokenizer.decode(session.rows[0])
    replies = ["QQ" + text_of(iter(told), index) for index in range(n)]
    follow_up = next(reply for reply in replies if reply.startswith(held)) + "XQ"
    fresh, _ = make_engine(tokenizer, fill)
    again = list(engine.complete(follow_up, GREEDY))
    assert usage_of(again).cached_tokens == len(held)
    assert text_of(iter(again)) == text_of(fresh.complete(follow_up, GREEDY))


def test_a_long_prompt_can_be_cancelled_between_its_parts_and_is_not_read_twice(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, context_length=4000)
    prompt = "🙂" * PART
    count = engine.count_tokens(prompt)
    deltas = engine.complete(prompt, GREEDY)
    first = next(deltas)
    assert (first.tokens, first.reading) == ((), (PART, count))
    deltas.close()
    assert session.length == PART < count
    again = list(engine.complete(prompt, GREEDY))
    usage = usage_of(again)
    told = [delta.reading for delta in again if delta.reading]
    assert told == [(read, count) for read in range(2 * PART, count, PART)]
    assert usage.cached_tokens == PART
    assert usage.prompt_tokens == count


def test_with_a_seed_the_prompt_is_read_anew_so_that_the_cache_cannot_change_the_text(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    for options in (Options(seed=3, max_tokens=5), Options(max_tokens=5)):
        list(engine.complete("hello world", GREEDY))
        session.calls.clear()
        usage = usage_of(list(engine.complete("hello world", options)))
        assert (usage.cached_tokens > 0) == (options.seed is None)
        assert session.calls[0] == (1, usage.prompt_tokens - usage.cached_tokens)


def test_after_an_error_the_cache_is_not_trusted(tokenizer: Tokenizer) -> None:
    def fill(tokens: Sequence[int], logits: np.ndarray) -> None:
        hashed(tokens, logits)
        if len(tokens) == broken_at:
            logits[:] = np.nan

    broken_at = len(tokenizer.encode("hello world")) + 2
    engine, session = make_engine(tokenizer, fill)
    list(engine.complete("hello", Options(max_tokens=1)))
    with pytest.raises(GenerationError, match="not numbers"):
        list(engine.complete("hello world", GREEDY))
    broken_at = 0
    session.rows[0][:] = [5] * session.length  # what an interrupted step might leave
    fresh, _ = make_engine(tokenizer)
    assert text_of(engine.complete("hello world", GREEDY)) == text_of(fresh.complete("hello world", GREEDY))
    assert engine.last_usage is not None and engine.last_usage.cached_tokens == 0


def test_going_back_to_another_text_reads_only_what_is_new_and_the_budget_holds(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, session = make_engine(tokenizer, context_length=2000)
    texts = [f"{letter} says hello to the lazy dog. " * 12 for letter in "QZX"]
    for text in texts:
        list(engine.complete(text, GREEDY))
    session.calls.clear()
    usages = [usage_of(list(engine.complete(text + "And?", GREEDY))) for text in texts]
    assert all(usage.prompt_tokens - usage.cached_tokens < 10 for usage in usages)
    assert max(count for _, count in session.calls) < 10
    fresh, _ = make_engine(tokenizer, context_length=2000)
    assert text_of(engine.complete(texts[0], GREEDY)) == text_of(fresh.complete(texts[0], GREEDY))
    size = engine._cache.prefixes[0].size
    monkeypatch.setattr(prompt_cache, "BUDGET", size + size // 2)  # room for one
    for text in texts:
        list(engine.complete(text, GREEDY))
    assert len(engine._cache.prefixes) == 1
    again = [usage_of(list(engine.complete(text, GREEDY))).cached_tokens for text in (texts[2], texts[0])]
    assert again[0] and not again[1]


def test_of_many_texts_the_last_hundred_are_kept(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    for token in range(MOST + 10):
        engine._cache.store([token], {"k": np.zeros((1, 1, 1, 1), np.float32)}, 1)
    assert [prefix.tokens for prefix in engine._cache.prefixes] == [[token] for token in range(10, MOST + 10)]
