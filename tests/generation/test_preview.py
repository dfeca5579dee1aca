"""Previews of the next token against what the Sampler draws; and how the engine comes by them."""

import math
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from backends.rereading import PART
from chatapp.generation import GenerationError, Message, OptionError, Options, PromptTooLong
from chatapp.generation.decoding.preview import SHOWN, Distribution, Preview
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.engine import Engine
from chatapp.generation.text.chat_template import ChatTemplate
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import CHATML, ScriptedSession, hashed, make_engine, text_of, write_tokenizer

SIZE = 60
PROMPT = (3, 4, 5, 6, 3)
REPLY = (7, 7, 7, 8)
CASES: list[dict[str, Any]] = [
    {},
    {"temperature": 0},
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0},
    {"temperature": 1.5, "top_k": 0, "top_p": 0.8},
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.2},
    {"temperature": 0.6, "top_k": 7, "top_p": 1.0},
    {"top_k": 0, "top_p": 1.0, "repetition_penalty": 1.4, "presence_penalty": 0.7, "frequency_penalty": 0.4},
    {"top_k": 12, "logit_bias": {1: 6.0, 2: -math.inf, 50: 2.5}},
    {"temperature": 0, "logit_bias": {9: 50.0}},
]


def random_logits(size: int, seed: int = 0, spread: float = 1.5) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, size).astype(np.float32)


def distribution(logits: np.ndarray, prompt: tuple[int, ...] = ()) -> Distribution:
    return Distribution(logits, prompt, lambda token: f"<{token}>")


def drawn_first(logits: np.ndarray, options: Options, seed: int) -> int:
    """The token that a fresh Sampler, told of the reply so far, draws next."""
    sampler = Sampler(options, seed=seed, index=0, prompt=PROMPT, vocab_size=logits.size)
    for token in REPLY:
        sampler.add(token)
    return sampler.sample(logits)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_candidates_come_as_often_as_the_sampler_draws_them(case: dict[str, Any]) -> None:
    logits, options = random_logits(SIZE), Options(**case)
    draws = 20_000 if case.get("temperature") != 0 else 20  # by chance, and else the same each time
    preview = distribution(logits, PROMPT).under(options, REPLY)
    drawn = Counter(drawn_first(logits, options, seed) for seed in range(draws))
    assert len(drawn) <= preview.kept
    for candidate in preview.candidates:
        spread = math.sqrt(draws * candidate.after * (1 - candidate.after))
        assert abs(drawn[candidate.id] - draws * candidate.after) <= 5 * spread


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kept_and_entropy_are_those_of_all_that_can_be_drawn(case: dict[str, Any]) -> None:
    logits, options = random_logits(SHOWN), Options(**case | {"logit_bias": {}})
    preview = distribution(logits).under(options)
    after = [candidate.after for candidate in preview.candidates if candidate.after]
    assert sum(after) == pytest.approx(1)
    assert preview.kept == len(after)
    assert preview.entropy == pytest.approx(-sum(p * math.log2(p) for p in after), abs=1e-6)
    before = [candidate.before for candidate in preview.candidates]
    assert preview.entropy_before == pytest.approx(-sum(p * math.log2(p) for p in before), abs=1e-6)
    assert preview.choices == pytest.approx(2**preview.entropy)
    assert preview.choices_before == pytest.approx(2**preview.entropy_before)
    assert sum(candidate.before for candidate in preview.candidates) == pytest.approx(1)


def test_before_is_the_model_s_own_probability_whatever_the_options() -> None:
    logits = random_logits(20_011)
    own = np.exp(logits.astype(np.float64))
    own /= own.sum()
    preview = distribution(logits).under(Options(temperature=0.1, top_k=3, top_p=1.0))
    assert [candidate.id for candidate in preview.candidates] == np.argsort(-own)[:SHOWN].tolist()
    assert [candidate.before for candidate in preview.candidates] == pytest.approx(sorted(own)[: -SHOWN - 1 : -1])
    assert preview.kept == 3 and preview.vocab_size == 20_011
    assert preview.candidates[0].text == f"<{preview.candidates[0].id}>"


def test_what_is_forbidden_or_lifted_by_a_bias_is_named() -> None:
    logits = random_logits(1000)
    best, worst = int(logits.argmax()), int(logits.argmin())
    preview = distribution(logits).under(Options(logit_bias={best: -math.inf, worst: 30.0}))
    shown = {candidate.id: candidate for candidate in preview.candidates}
    assert len(shown) == SHOWN and preview.candidates[0].id == worst
    assert shown[best].after == 0 < shown[best].before
    assert shown[worst].after > 0.99 > 0.01 > shown[worst].before


def test_trying_options_leaves_the_distribution_as_it_was() -> None:
    logits = random_logits(500)
    kept = distribution(logits, PROMPT)
    first = kept.under(Options())
    kept.under(Options(repetition_penalty=3, logit_bias={1: 9}), REPLY)
    logits[:] = 0
    assert kept.under(Options()) == first


def test_a_bias_for_a_token_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(OptionError, match="logit_bias names token 70, this model has only 60 tokens"):
        distribution(random_logits(SIZE)).under(Options(logit_bias={70: 1}))


def test_nothing_can_follow_where_every_token_is_forbidden() -> None:
    with pytest.raises(GenerationError, match="no token can follow"):
        distribution(random_logits(2)).under(Options(logit_bias={0: -math.inf, 1: -math.inf}))


@pytest.mark.parametrize("case", [*CASES[:6], {"top_k": 0, "top_p": 0.9999, "repetition_penalty": 1.1}], ids=str)
def test_a_vocabulary_of_150_000_is_weighed_between_two_keystrokes(case: dict[str, Any]) -> None:
    kept = distribution(random_logits(150_000, spread=3.0), tuple(range(2000)))
    options, times = Options(**case), []
    for _ in range(7):
        start = time.thread_time()
        kept.under(options)
        times.append(time.thread_time() - start)
    assert min(times) < 0.02  # 0.005 on an idle machine of our kind


# The engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), chat_template=CHATML, eos_token="<|endoftext|>")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder)


def asked(engine: Engine, prompt: str | list[Message]) -> Distribution:
    found = engine.next_token(prompt)
    assert found
    return found


def under(engine: Engine, prompt: str | list[Message], **options: Any) -> Preview:
    return asked(engine, prompt).under(Options(**options))


def test_the_engine_tells_what_it_would_draw_first(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    preview = under(engine, "def add(", temperature=0)
    delta = next(iter(engine.complete("def add(", Options(temperature=0, logprobs=3))))
    (token,) = delta.tokens
    first = preview.candidates[0]
    assert (first.id, first.after) == (token.id, 1)
    assert [one.text for one in preview.candidates[:3]] == [one.text for one in token.alternatives]
    assert token.logprob == pytest.approx(math.log(first.before), abs=1e-5)


def test_a_conversation_is_previewed_through_its_template(folder: Path, tokenizer: Tokenizer) -> None:
    session = ScriptedSession(hashed, vocab_size=400)
    template = ChatTemplate(folder)
    engine = Engine(session, tokenizer, template)
    messages = [Message("user", "hello")]
    assert asked(engine, messages).prompt == tuple(template.encode(messages, tokenizer))


def test_the_prompt_is_read_once_for_preview_and_turn(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    whole = len(tokenizer.encode("for i in range"))
    under(engine, "for i in range")
    under(engine, "for i in range", temperature=1)
    assert session.calls == [(1, whole)]
    turn = engine.complete("for i in range", Options(temperature=0, max_tokens=3))
    assert text_of(turn) == text_of(make_engine(tokenizer)[0].complete("for i in range", Options(0, max_tokens=3)))
    assert session.calls[1] == (1, 1)


def test_after_a_turn_only_what_is_new_is_read(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    text = "for i in range"
    written = text + text_of(engine.complete(text, Options(temperature=0, max_tokens=4)))
    session.calls.clear()
    after = under(engine, text + "(10)")
    assert session.calls == [(1, len(tokenizer.encode(text + "(10)")) - len(tokenizer.encode(text)))]
    assert after == under(make_engine(tokenizer)[0], text + "(10)")
    assert under(engine, written) == under(make_engine(tokenizer)[0], written)


def test_reading_a_long_prompt_ends_where_nobody_wants_it_and_serves_the_turn(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, context_length=4000)
    text = "🙂" * 900
    answers = iter([True, False])
    assert engine.next_token(text, lambda: next(answers)) is None
    assert session.calls == [(1, PART)]
    deltas = list(engine.complete(text, Options(temperature=0, max_tokens=1)))
    usage = deltas[-1].usage
    assert usage and usage.cached_tokens == PART
    assert session.length == len(tokenizer.encode(text))


def test_a_failure_leaves_nothing_that_is_taken_for_read(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    under(engine, "for i")
    logits = session.logits

    def fail(tokens: object, logits: object) -> None:
        raise RuntimeError("the runtime broke")

    session.logits = fail
    with pytest.raises(RuntimeError):
        engine.next_token("for i in range")
    session.logits = logits
    session.calls.clear()
    assert under(engine, "for i in range") == under(make_engine(tokenizer)[0], "for i in range")
    assert session.calls == [(1, len(tokenizer.encode("for i in range")))]


def test_a_preview_waits_for_the_turn_that_runs(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    turn = engine.complete("for i", Options(temperature=0, max_tokens=5))
    next(turn)
    found: list[Preview] = []
    thread = Thread(target=lambda: found.append(under(engine, "hello")))
    thread.start()
    thread.join(0.1)
    assert thread.is_alive() and not found
    turn.close()
    thread.join(60)
    assert found == [under(make_engine(tokenizer)[0], "hello")]


def test_what_was_asked_last_is_known_while_a_turn_runs(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    before = asked(engine, "for i")
    turn = engine.complete("for i", Options(temperature=0, max_tokens=5))
    next(turn)
    assert asked(engine, "for i") is before
    turn.close()


def test_what_an_encoder_reads_is_no_part_of_what_penalties_are_about(tokenizer: Tokenizer) -> None:
    class Encoding(ScriptedSession):
        whole_prompts = True

    engine = Engine(Encoding(hashed, vocab_size=400), tokenizer)
    found = asked(engine, "hello world")
    assert found.prompt == ()
    delta = next(iter(engine.complete("hello world", Options(temperature=0))))
    assert found.under(Options(temperature=0)).candidates[0].id == delta.tokens[0].id


def test_what_cannot_be_answered_cannot_be_previewed(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, context_length=4)
    with pytest.raises(GenerationError, match="prompt is empty"):
        engine.next_token("")
    with pytest.raises(GenerationError, match="no chat template"):
        engine.next_token([Message("user", "hello")])
    with pytest.raises(PromptTooLong):
        engine.next_token("🙂" * 9)
    assert session.calls == []
