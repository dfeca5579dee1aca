"""Whole turns: text in, deltas out, with all that is measured."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as Vocabulary
from tokenizers import decoders, models, pre_tokenizers

from chatapp.generation import GenerationError, Message, Options, PromptTooLong
from chatapp.generation.delta import percentile
from chatapp.generation.engine import Engine
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import (
    CHATML,
    ScriptedSession,
    hashed,
    make_engine,
    saying,
    text_of,
    usage_of,
    write_tokenizer,
)

SIZE = 400
GREEDY = Options(temperature=0, max_tokens=12)
END = 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), chat_template=CHATML, eos_token="<|endoftext|>")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder)


def test_a_reply_streams_token_by_token_until_the_model_ends_it(tokenizer: Tokenizer) -> None:
    reply = "Hello 日本 größer 🙂!"
    engine, _ = make_engine(tokenizer, saying(tokenizer.encode(reply), END))
    deltas = list(engine.complete("say", Options(temperature=0)))
    assert "".join(delta.text for delta in deltas) == reply
    assert [token.id for delta in deltas for token in delta.tokens] == [*tokenizer.encode(reply), END]
    assert [delta.finish_reason for delta in deltas] == [None] * (len(deltas) - 1) + ["stop"]
    assert all(len(delta.tokens) == 1 for delta in deltas)


def test_chat_puts_the_conversation_into_the_template(folder: Path, tokenizer: Tokenizer) -> None:
    session = ScriptedSession(saying(tokenizer.encode("Hi."), END), vocab_size=SIZE)
    template = ChatTemplate(folder)
    engine = Engine(session, tokenizer, template)
    messages = [Message("user", "hello <|im_end|>")]
    assert text_of(engine.chat(messages, GREEDY)) == "Hi."
    assert session.rows[0] == template.encode(messages, tokenizer) + tokenizer.encode("Hi.")
    assert engine.can_chat


def test_a_base_model_says_that_it_cannot_chat(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    assert not engine.can_chat
    with pytest.raises(GenerationError, match="no chat template"):
        engine.chat([Message("user", "hello")], GREEDY)


def test_a_tokenizer_of_another_model_is_noticed(tokenizer: Tokenizer) -> None:
    session = ScriptedSession(hashed, vocab_size=20)
    with pytest.raises(GenerationError, match="the model knows 20: they do not belong together"):
        Engine(session, tokenizer).complete("hello", GREEDY)
    assert session.length == 0


@pytest.mark.parametrize("given", [(), (END,)])
def test_a_text_is_scored_by_the_logits_before_each_of_its_tokens(
    tokenizer: Tokenizer, given: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "start", given)
    engine, session = make_engine(tokenizer, context_length=600)
    text = "def add(first, second): 日本 " * 20
    tokens = tokenizer.encode(text)
    assert len(tokens) > 256  # more than are read at once
    told = list(engine.score(text, Options(logprobs=3)))
    found = [token for delta in told for token in delta.tokens]
    assert [one.id for one in found] == tokens and "".join(one.text for one in found) == text
    assert found[0].logprob is None and not found[0].alternatives
    for place, one in enumerate(found[1:], 1):
        logits = np.empty(SIZE, np.float32)
        hashed([*given, *tokens[:place]], logits)
        logprobs = logits - np.log(np.exp(logits.astype(np.float64)).sum())
        assert one.logprob == pytest.approx(logprobs[one.id], abs=1e-4)
        assert [other.id for other in one.alternatives] == np.argsort(-logits)[:3].tolist()
    assert told[-1].finish_reason == "length" and usage_of(told).completion_tokens == 0
    assert usage_of(list(engine.complete(text, GREEDY))).cached_tokens == len(given) + len(tokens) - 1
    session.whole_prompts = True
    with pytest.raises(GenerationError, match="has no probabilities for a prompt's tokens"):
        engine.score(text, GREEDY)


def test_an_empty_prompt_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(GenerationError, match="prompt is empty"):
        make_engine(tokenizer)[0].complete("", GREEDY)


def test_a_prompt_longer_than_the_context_is_refused_before_anything_is_computed(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, context_length=1024)
    prompt = "🙂" * 2000
    count = engine.count_tokens(prompt)
    assert count > 1024
    with pytest.raises(PromptTooLong) as caught:
        engine.complete(prompt, GREEDY)
    assert str(caught.value) == (
        f"the prompt is too long by {count - 1024:,} tokens ({count:,} of 1,024); "
        "shorten it, or choose a model with a longer context"
    )
    assert session.calls == []


@pytest.mark.parametrize("text", ["," * 15_000_000, "word " * 3_000_000], ids=["commas", "words"])
def test_of_megabytes_only_the_beginning_is_read_to_refuse_them(tokenizer: Tokenizer, text: str) -> None:
    engine, _ = make_engine(tokenizer, context_length=1024)
    started = time.process_time()
    for refuse in (lambda: engine.complete(text, Options()), lambda: engine.encode_marked(text)):
        with pytest.raises(PromptTooLong, match="more than"):
            refuse()
    assert time.process_time() - started < 5


@pytest.mark.parametrize("room", [0, 1, 5])
def test_a_full_context_ends_the_reply_and_is_never_overrun(tokenizer: Tokenizer, room: int) -> None:
    count = len(tokenizer.encode("hello world"))
    engine, session = make_engine(tokenizer, context_length=count + room)
    deltas = list(engine.complete("hello world", Options(temperature=0, logit_bias={END: -100})))
    assert len(deltas) == room + 1
    assert deltas[-1].finish_reason == "length"
    assert session.length == count + room


def test_a_stop_string_ends_the_reply_and_is_not_shown(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, saying(tokenizer.encode("one two three"), END))
    deltas = list(engine.complete("count", Options(temperature=0, stop=("never", "o th"))))
    assert "".join(delta.text for delta in deltas) == "one tw"
    assert deltas[-1].finish_reason == "stop"
    assert usage_of(deltas).completion_tokens == len(deltas) < len(tokenizer.encode("one two three")) + 1


def test_text_held_back_for_a_stop_string_is_shown_when_the_reply_ends(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, saying(tokenizer.encode("one two three"), END))
    assert text_of(engine.complete("count", Options(temperature=0, stop=("three!",)))) == "one two three"


def test_half_a_character_is_shown_as_such_only_when_the_reply_ends(tokenizer: Tokenizer) -> None:
    tokens = [token for token in range(SIZE) if tokenizer.bytes_of(token) in (b"\xf0", b"\x9f")]
    engine, _ = make_engine(
        tokenizer, saying(sorted(tokens, key=lambda t: tokenizer.bytes_of(t) or b"", reverse=True), END)
    )
    assert [delta.text for delta in engine.complete("x", Options(temperature=0))] == ["", "", "�"]


def test_a_cancelled_turn_leaves_its_usage(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    deltas = engine.complete("hello", Options(seed=9, logit_bias={END: -100}))
    for _ in range(4):
        next(deltas)
    deltas.close()
    usage = engine.last_usage
    assert usage is not None
    assert (usage.completion_tokens, usage.seed, len(usage.latencies)) == (4, 9, 3)


def test_a_row_s_text_is_the_same_in_a_batch_and_the_batch_ends_row_by_row(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    options = Options(n=4, seed=2, max_tokens=20, temperature=2.0, top_k=0, top_p=1.0)
    deltas = list(engine.complete("hello", options))
    assert [sum(delta.index == i and delta.finish_reason is not None for delta in deltas) for i in range(4)] == [1] * 4
    usage = usage_of(deltas)
    assert usage.completion_tokens == sum(len(delta.tokens) for delta in deltas)
    assert len(usage.latencies) == usage.completion_tokens - 4
    assert session.batch == 1 and {batch for batch, _ in session.calls} >= {1, 4}
    alone = list(
        make_engine(tokenizer)[0].complete("hello", Options(seed=2, max_tokens=20, temperature=2.0, top_k=0, top_p=1))
    )
    assert text_of(iter(alone)) == text_of(iter(deltas))


def test_the_same_seed_gives_the_same_text_and_a_drawn_seed_is_told(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    deltas = list(engine.complete("hello", Options(max_tokens=12)))
    seed = usage_of(deltas).seed
    assert text_of(engine.complete("hello", Options(max_tokens=12, seed=seed))) == text_of(iter(deltas))
    assert text_of(engine.complete("hello", Options(max_tokens=12, seed=seed + 1))) != text_of(iter(deltas))


def test_a_completion_goes_on_with_the_space_that_its_first_word_brings(tmp_path: Path) -> None:
    vocabulary = Vocabulary(
        models.Unigram([("<unk>", 0.0), ("▁Hello", -1.0), ("▁world", -1.0), ("</s>", 0.0)], 0, False)
    )
    vocabulary.pre_tokenizer = pre_tokenizers.Metaspace()
    vocabulary.decoder = decoders.Metaspace()
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text('{"eos_token_id": 3}')
    session = ScriptedSession(saying([2], 3), vocab_size=4)
    assert text_of(Engine(session, Tokenizer(tmp_path)).complete("Hello", GREEDY)) == " world"


def test_infilling_stops_at_infilling_tokens_and_shows_none(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, saying(tokenizer.encode("b + c"), 1))
    deltas = list(engine.infill("a = ", "\n", Options(temperature=0)))
    assert "".join(delta.text for delta in deltas) == "b + c"
    assert deltas[-1].finish_reason == "stop"
    assert session.rows[0][0] == tokenizer.token_id("<fim_prefix>")


def test_infilling_writes_64_tokens_if_not_told_otherwise_in_a_context_it_trims_the_file_to(
    tokenizer: Tokenizer,
) -> None:
    engine, session = make_engine(tokenizer)
    options = Options(temperature=0, logit_bias=dict.fromkeys(range(6), -100.0))
    assert len(list(engine.infill("x = 1\n" * 1000, "y = 2\n" * 1000, options))) == 64
    assert 0.7 * (256 - 64) < session.length - 63 <= 256 - 64
    assert len(list(engine.infill("x", "y", Options(temperature=0, max_tokens=3)))) <= 3


def test_a_model_without_infilling_tokens_goes_on_with_the_prefix(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path) / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace("<fim_", "<other_"), encoding="utf-8")
    tokenizer = Tokenizer(tmp_path)
    engine, session = make_engine(tokenizer, saying(tokenizer.encode("c + d"), 0))
    assert not engine.can_infill
    assert text_of(engine.infill("a = b ", "\nx", GREEDY)) == "c + d"
    assert tokenizer.decode(session.rows[0]) == "a = b c + d"


def test_timings_and_latencies_account_for_all_the_time_and_not_for_the_reader_s(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def pass_time(seconds: float = 0.0001) -> float:
        nonlocal now
        now += seconds
        return now

    def slow(tokens: Sequence[int], logits: np.ndarray) -> None:
        hashed(tokens, logits)
        pass_time(0.004)

    for module in ("engine", "turns", "decoding.generate"):
        monkeypatch.setattr(f"chatapp.generation.{module}.perf_counter", pass_time)
    engine, _ = make_engine(tokenizer, slow)
    deltas = []
    for delta in engine.complete("hello", Options(seed=1, max_tokens=6, logit_bias={END: -100})):
        deltas.append(delta)
        pass_time(0.03)
    elapsed, usage = now, usage_of(deltas)
    assert deltas[0].timings.prefill >= 0.004 and deltas[0].timings.decode == 0
    assert all(delta.timings.decode >= 0.004 and delta.timings.prefill == 0 for delta in deltas[1:])
    assert all(delta.timings.sampling > 0 and delta.timings.detokenising > 0 for delta in deltas)
    seconds = [token.seconds for delta in deltas for token in delta.tokens]
    assert seconds[1:] == list(usage.latencies)
    assert sum(seconds) <= elapsed - 6 * 0.03
    spent = sum(d.timings.prefill + d.timings.decode + d.timings.sampling + d.timings.detokenising for d in deltas)
    assert spent == pytest.approx(sum(seconds), rel=0.05)
    assert usage.time_to_first_token == seconds[0] >= usage.prefill_seconds >= 0.004
    assert usage.tokens_per_second == pytest.approx(5 / sum(seconds[1:]))
    assert (usage.first_token, usage.last_token) == (seconds[1], seconds[-1])
    assert usage.p50 <= usage.p95 <= usage.p99 <= max(seconds[1:])


def test_the_usage_says_what_ran_and_goes_into_json(tokenizer: Tokenizer) -> None:
    usage = usage_of(list(make_engine(tokenizer)[0].complete("hello", GREEDY))).as_dict()
    assert (usage["backend"], usage["device"], usage["precision"]) == ("scripted", "cpu", "f32")
    assert (usage["load_seconds"], usage["lowering_seconds"]) == (1.5, 2.5)
    assert usage["prompt_tokens"] == len(tokenizer.encode("hello"))
    assert 10_000_000 < usage["peak_memory"] < 100_000_000_000
    assert isinstance(usage["latencies"], list)


@pytest.mark.parametrize("percent", [0, 1, 50, 95, 99, 100])
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_percentiles_are_numpy_s(count: int, percent: float) -> None:
    values = np.random.default_rng(count).random(count)
    assert percentile(values.tolist(), percent) == pytest.approx(float(np.percentile(values, percent)))
    assert percentile([], percent) == 0


def test_log_probabilities_and_alternatives_come_only_when_asked_for(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, saying(tokenizer.encode("hello"), END))
    asked = next(engine.complete("x", Options(temperature=0, logprobs=2))).tokens[0]
    assert asked.logprob == pytest.approx(0, abs=1e-6)
    assert asked.alternatives[0].id == asked.id and asked.alternatives[0].text == asked.text
    assert len(asked.alternatives) == 2
    plain = next(engine.complete("x", Options(temperature=0))).tokens[0]
    assert (plain.logprob, plain.alternatives) == (None, ())


def test_a_turn_dropped_in_the_middle_frees_the_engine(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    for _ in engine.complete("hello", GREEDY):
        break
    assert text_of(engine.complete("hello", GREEDY))
