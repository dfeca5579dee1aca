"""Turns that run at once: each says what it would say alone, joins between steps, and leaves alone."""

import gc
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest

from backends import BackendError
from chatapp.generation import Delta, GenerationError, Options
from chatapp.generation.engine import Engine
from chatapp.generation.running import UNREAD
from chatapp.generation.text.tokenizer import Tokenizer
from chatapp.generation.turns import SHORT_PART, TurnStream
from support.scripted_session import (
    ScriptedBatch,
    ScriptedSession,
    hashed,
    make_engine,
    text_of,
    usage_of,
    write_tokenizer,
)

END = 0
GOING = {END: -100}
GREEDY = Options(temperature=0, max_tokens=12, logit_bias=GOING)
WAYS = [
    ("The quick brown fox", Options(temperature=0, max_tokens=30, logit_bias=GOING)),
    ("hello", Options(temperature=0, n=2, max_tokens=9, repetition_penalty=1.3)),
    ("def add(first, second):", Options(temperature=1.2, seed=7, n=3, max_tokens=17)),
    ("x", Options(temperature=0, num_beams=3, max_tokens=8)),
    ("for i in range(10):\n" * 12, Options(temperature=0, max_tokens=5, logprobs=2)),
    ("lazy dog, and says", Options(temperature=0, stop=("e", "1"), max_tokens=40)),
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


class Watched(ScriptedSession):
    """Remembers its batches."""

    batches: list[ScriptedBatch]

    def open_batch(self) -> ScriptedBatch | None:
        self.batches = [*getattr(self, "batches", ()), ScriptedBatch(self)]
        return self.batches[-1]


def watched(tokenizer: Tokenizer, context_length: int = 1000) -> tuple[Engine, Watched]:
    session = Watched(hashed, vocab_size=400, context_length=context_length)
    return Engine(session, tokenizer, hold=0.0), session


def said(deltas: Sequence[Delta]) -> list[tuple[str, list[int], list[float | None]]]:
    """The text, tokens and log-probabilities of each completion."""
    tokens = {delta.index: [t for d in deltas if d.index == delta.index for t in d.tokens] for delta in deltas}
    return [
        (text_of(deltas, index), [t.id for t in found], [t.logprob for t in found])
        for index, found in sorted(tokens.items())
    ]


def alone(tokenizer: Tokenizer, text: str, options: Options) -> list[tuple[str, list[int], list[float | None]]]:
    return said(list(watched(tokenizer)[0].complete(text, options)))


def test_turns_of_several_threads_run_at_once_and_each_says_what_it_says_alone(tokenizer: Tokenizer) -> None:
    engine, session = watched(tokenizer)
    found: dict[int, list[Delta]] = {}
    together = threading.Barrier(len(WAYS))

    def draw(place: int) -> None:
        stream = engine.complete(*WAYS[place])
        first = next(stream)
        together.wait(60)
        found[place] = [first, *stream]

    threads = [threading.Thread(target=draw, args=(place,)) for place in range(len(WAYS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for place, way in enumerate(WAYS):
        assert said(found[place]) == alone(tokenizer, *way)
        assert usage_of(found[place]).completion_tokens == sum(len(tokens) for _, tokens, _ in said(found[place]))
    assert any(len(set(lengths)) > 1 for batch in session.batches for lengths in batch.calls)
    assert not engine.turns.running and not engine.turns.queue
    assert all(not batch.rows for batch in session.batches)


def test_turns_that_are_told_are_told_by_the_thread_that_computes_and_let_go_when_no_more_is_wanted(
    tokenizer: Tokenizer,
) -> None:
    engine, session = watched(tokenizer)
    found: dict[int, list[Delta]] = {place: [] for place in range(len(WAYS) + 1)}
    tellers: dict[int, set[int]] = {place: set() for place in found}
    threads = [threading.Thread(target=lambda p=place: listen(p)) for place in found]

    def listen(place: int) -> None:
        text, options = WAYS[place] if place < len(WAYS) else ("left", Options(temperature=0, logit_bias=GOING))

        def hear(delta: Delta) -> bool:
            while not any(found.values()) and len(engine.turns.running) < len(found):
                pass  # until all are there
            found[place].append(delta)
            tellers[place].add(threading.get_ident())
            return place < len(WAYS) or len(found[place]) < 5

        stream = engine.complete(text, options)
        assert isinstance(stream, TurnStream)
        stream.tell(hear)
        assert not list(stream)

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for place, way in enumerate(WAYS):
        assert said(found[place]) == alone(tokenizer, *way)
    assert len(found[len(WAYS)]) == 5
    own = {place: thread.ident for place, thread in enumerate(threads)}
    assert any(tellers[place] - {own[place]} for place in found)
    assert not engine.turns.running and not engine.turns.queue
    assert all(not batch.rows for batch in session.batches)


@pytest.mark.parametrize("after", [0, 1, 4])
def test_one_joins_between_two_steps_of_another_and_each_is_cancelled_alone(tokenizer: Tokenizer, after: int) -> None:
    engine, session = watched(tokenizer)
    going = Options(temperature=0, max_tokens=400, logit_bias=GOING)
    first, second = engine.complete("The quick brown fox", going), engine.complete("hello world", going)
    told = [next(first) for _ in range(after)]
    other = [next(second) for _ in range(3)]
    told.append(next(first))
    third = engine.complete("XQ", GREEDY)
    other.append(next(second))
    cancelled = next(third)
    assert cancelled.tokens
    third.close()
    assert len(engine.turns.running) == 2
    other += second
    told += first
    assert said(told) == alone(tokenizer, "The quick brown fox", going)
    assert said(other) == alone(tokenizer, "hello world", going)
    assert max(len(lengths) for batch in session.batches for lengths in batch.calls) >= 2
    assert engine.last_usage == usage_of(told)


def test_while_a_long_prompt_is_read_others_go_on(tokenizer: Tokenizer) -> None:
    engine, session = watched(tokenizer, context_length=4000)
    first = engine.complete("hello", Options(temperature=0, max_tokens=900, logit_bias=GOING))
    next(first)
    long = "🙂" * 300
    second = engine.complete(long, GREEDY)
    told = [next(second)]
    batch = session.batches[-1]
    while told[-1].reading:
        grown = batch.lengths[0]
        told.append(next(second))
        assert batch.lengths[0] > grown  # a step at least between two parts
    read = [count for rows, count in session.calls if count > 1]
    assert max(read[1:]) == SHORT_PART < engine.count_tokens(long)
    assert said([*told, *second]) == alone(tokenizer, long, GREEDY)
    first.close()


@pytest.mark.parametrize("options", [GREEDY, Options(seed=5, n=2, max_tokens=7)], ids=["greedy", "seeded"])
def test_short_prompts_pass_a_long_one_that_is_read_and_nothing_is_read_twice(
    tokenizer: Tokenizer, options: Options
) -> None:
    engine, session = watched(tokenizer, context_length=9000)
    long, short = "🙂" * 5000, "hello world"
    total = engine.count_tokens(long)
    first = engine.complete(long, options)
    told = [next(first)]
    for _ in range(4):
        others = list(engine.complete(short, GREEDY))
        assert said(others) == alone(tokenizer, short, GREEDY)
    assert told[-1].reading and sum(count for _, count in session.calls if count > 1) < total
    told += first
    assert said(told) == said(list(watched(tokenizer, 9000)[0].complete(long, options)))
    read = sum(count for _, count in session.calls if count > 1)
    assert read <= total + 4 * engine.count_tokens(short)
    assert not engine.turns.running and usage_of(told).cached_tokens == 0


def test_others_go_between_the_parts_of_a_prompt_that_is_scored(tokenizer: Tokenizer) -> None:
    engine, session = watched(tokenizer)
    text, found = "def add(first, second): 日本 " * 20, list[Delta]()
    scoring = engine.score(text, GREEDY)
    told = [next(scoring)]
    other = threading.Thread(target=lambda: found.extend(engine.complete("hello", GREEDY)))
    other.start()
    while not engine.turns.running:
        time.sleep(0.001)
    told += scoring
    other.join()
    (_, first), (_, second), *_, (_, last) = session.calls
    assert found[-1].finish_reason and first == 256 and second < 10 and first + last == engine.count_tokens(text)
    assert said(told) == said(list(watched(tokenizer)[0].score(text, GREEDY)))


@pytest.mark.parametrize(("free", "waits"), [(1 << 40, False), (1, True)])
def test_a_short_prompt_waits_where_a_long_one_cannot_be_set_aside(
    tokenizer: Tokenizer, free: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, session = watched(tokenizer, context_length=9000)
    session.token_bytes, long = 1, "🙂" * 2000
    total = engine.count_tokens(long)
    first = engine.complete(long, GREEDY)
    told = [next(first)]
    second = engine.complete("hello", GREEDY)
    monkeypatch.setattr("chatapp.generation.prompt_cache.available_memory", lambda: free)
    monkeypatch.setattr(engine.turns, "_has_place", lambda one: True)
    assert next(second).tokens
    assert (sum(count for _, count in session.calls) > total) is waits
    told += first
    assert said(told) == said(list(watched(tokenizer, 9000)[0].complete(long, GREEDY)))
    second.close()


def test_a_short_prompt_waits_where_the_copy_of_a_long_one_finds_no_memory(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, session = watched(tokenizer, context_length=9000)
    long = "🙂" * 2000
    first = engine.complete(long, GREEDY)
    told = [next(first)]
    second = engine.complete("hello", GREEDY)

    def copy() -> None:
        raise MemoryError

    monkeypatch.setattr(engine.turns.cache, "copy", copy)
    assert next(second).tokens
    assert sum(count for _, count in session.calls) > engine.count_tokens(long)
    told += first
    assert said(told) == said(list(watched(tokenizer, 9000)[0].complete(long, GREEDY)))
    second.close()


def test_with_a_seed_a_turn_has_its_own_steps_whoever_else_is_there(tokenizer: Tokenizer) -> None:
    engine, session = watched(tokenizer)
    others = [engine.complete(text, Options(temperature=0, max_tokens=60, logit_bias=GOING)) for text in ("a", "b")]
    for other in others:
        next(other)
    seeded = list(engine.complete("hello", Options(seed=5, n=2, max_tokens=12)))
    assert said(seeded) == alone(tokenizer, "hello", Options(seed=5, n=2, max_tokens=12))
    apart = session.batches[-1]
    assert {len(lengths) for lengths in apart.calls} <= {1, 2}
    assert {2} == {len(lengths) for batch in session.batches[:-1] for lengths in batch.calls[5:]}
    for other in others:
        other.close()


def test_so_many_run_at_once_and_the_rest_waits_its_turn(tokenizer: Tokenizer) -> None:
    engine, _ = watched(tokenizer)
    engine.turns.at_once = 2
    first, second = (engine.complete(text, GREEDY) for text in ("a", "b"))
    next(first), next(second)
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(text_of(engine.complete("hello", GREEDY))))
    waiting.start()
    while not engine.turns.queue:
        pass
    assert (len(engine.turns.running), len(engine.turns.queue)) == (2, 1)
    assert len(list(second)) == 11
    waiting.join(60)
    assert found == [text_of(watched(tokenizer)[0].complete("hello", GREEDY))]
    assert list(first)


def test_where_rows_must_be_of_one_length_the_second_turn_waits_and_a_cancel_frees_at_once(
    tokenizer: Tokenizer,
) -> None:
    class Uniform(ScriptedSession):
        def open_batch(self) -> None:
            return None

    session = Uniform(hashed, vocab_size=400)
    engine = Engine(session, tokenizer, hold=0.0)
    first = engine.complete("hello", Options(seed=1, logit_bias=GOING))
    next(first)
    calls, texts = list(session.calls), list[str]()
    second = threading.Thread(target=lambda: texts.append(text_of(engine.complete("hello world", GREEDY))))
    second.start()
    while not engine.turns.queue:
        pass
    assert second.is_alive() and session.calls == calls
    first.close()
    second.join(60)
    assert texts == [text_of(watched(tokenizer)[0].complete("hello world", GREEDY))]


def test_what_wants_the_model_alone_waits_until_nobody_runs(tokenizer: Tokenizer) -> None:
    engine, _ = watched(tokenizer)
    first, second = (engine.complete(text, GREEDY) for text in ("a", "b"))
    next(first), next(second)
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.append(engine.next_token("hello")))
    asking.start()
    while not engine.turns.queue:
        pass
    second.close()
    assert not found
    first.close()
    asking.join(60)
    assert found[0] is not None


def test_a_turn_whose_reader_has_enough_to_read_keeps_nobody_waiting(tokenizer: Tokenizer) -> None:
    engine, session = watched(tokenizer, context_length=2000)
    options = Options(temperature=0, max_tokens=UNREAD + 100, logit_bias=GOING)
    slow, quick = engine.complete("slow", options), engine.complete("quick", options)
    told = [next(slow)]
    assert said(list(quick)) == alone(tokenizer, "quick", options)
    grown = max(length for batch in session.batches for length in batch.lengths)
    assert grown <= UNREAD + 2 + engine.count_tokens("slow")
    assert said([*told, *slow]) == alone(tokenizer, "slow", options)


def test_what_passed_before_a_turn_began_is_not_taken_from_its_time(tokenizer: Tokenizer) -> None:
    engine, _ = watched(tokenizer)
    first = engine.complete("hello", GREEDY)
    next(first)
    time.sleep(0.2)  # its reader takes its time
    second = list(engine.complete("world", GREEDY))
    assert usage_of(second).time_to_first_token > 0
    assert all(token.seconds > 0 for delta in second for token in delta.tokens)
    first.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_turn_that_has_said_all_is_not_moved_beside_another(tokenizer: Tokenizer, way: tuple[str, Options]) -> None:
    engine, session = watched(tokenizer)
    first, told = engine.complete(*way), list[Delta]()
    while not told or told[-1].usage is None:  # and its reader has not come back to hear that this was all
        told.append(next(first))
    assert said(list(engine.complete("quick", GREEDY))) == alone(tokenizer, "quick", GREEDY)
    assert said([*told, *first]) == alone(tokenizer, *way)
    assert not engine.turns.running and all(not batch.rows for batch in session.batches)


def test_a_cancelled_turn_counts_what_its_reader_was_told(tokenizer: Tokenizer) -> None:
    engine, _ = watched(tokenizer)
    slow, quick = engine.complete(*WAYS[0]), engine.complete("quick", GREEDY)
    next(slow), list(quick)
    slow.close()
    assert engine.last_usage and engine.last_usage.completion_tokens == 1


def test_where_a_batch_fails_its_turns_go_on_one_after_the_other(tokenizer: Tokenizer) -> None:
    class Dying(ScriptedBatch):
        def forward(self, tokens: np.ndarray) -> np.ndarray:
            if len(self.calls) == 5:
                raise BackendError("the device is gone")
            return super().forward(tokens)

    class Mortal(ScriptedSession):
        def open_batch(self) -> ScriptedBatch | None:
            return Dying(self)

    engine = Engine(Mortal(hashed, vocab_size=400, context_length=1000), tokenizer, hold=0.0)
    streams = [engine.complete(*way) for way in WAYS[:2]]
    found: list[list[Delta]] = [[], []]
    for _ in range(4):
        for place, stream in enumerate(streams):
            found[place].append(next(stream))
    threads = [threading.Thread(target=lambda p=place: found[p].extend(streams[p])) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for deltas, way in zip(found, WAYS, strict=False):
        assert said(deltas) == alone(tokenizer, *way)


def test_a_wrong_logit_ends_only_the_turn_that_met_it(tokenizer: Tokenizer) -> None:
    wrong = tokenizer.encode("hello")

    def fill(tokens: Sequence[int], logits: np.ndarray) -> None:
        hashed(tokens, logits)
        if list(tokens[: len(wrong)]) == wrong and len(tokens) > len(wrong) + 2:
            logits[:] = np.nan

    engine, _ = make_engine(tokenizer, fill)
    good, bad = engine.complete("a", GREEDY), engine.complete("hello", GREEDY)
    told = [next(good), next(good)]
    with pytest.raises(GenerationError, match="not numbers"):
        list(bad)
    assert said([*told, *good]) == alone(tokenizer, "a", GREEDY)


def test_a_turn_that_is_dropped_while_its_step_is_computed_leaves_too(tokenizer: Tokenizer) -> None:
    dropped: list[object] = []

    def fill(tokens: Sequence[int], logits: np.ndarray) -> None:
        hashed(tokens, logits)
        if len(tokens) > 8 and dropped:
            dropped.clear()  # which closes it, in the thread that computes
            gc.collect()

    engine, _ = make_engine(tokenizer, fill)
    first, second = engine.complete(*WAYS[0]), engine.complete("hello", GREEDY)
    told = [next(first)]
    next(second)
    dropped.append(second)
    del second
    assert len(engine.turns.running) == 2
    told.append(next(first))
    while dropped:
        told.append(next(first))
    told.append(next(first))
    assert len(engine.turns.running) == 1
    assert said([*told, *first]) == alone(tokenizer, *WAYS[0])
