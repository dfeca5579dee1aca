"""Beam search against transformers on the same checkpoints, and what must hold in it."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from backends import reference
from chatapp.generation import Delta, GenerationError, OptionError, Options, Reply
from chatapp.generation.decoding.beams import Beams
from chatapp.generation.decoding.generate import Stopwatch, generate
from chatapp.generation.decoding.indentation import Indentation, LineBreaks
from chatapp.generation.decoding.row import Row
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.decoding.stop import StopStrings
from chatapp.generation.memory import available_memory
from chatapp.generation.options import check_together
from chatapp.generation.text.tokenizer import Tokenizer
from model_store.checkpoint.weights import Canonical
from model_store.convert import open_checkpoint
from support.scripted_session import ScriptedSession, hashed, make_engine, usage_of, write_tokenizer

TESTS = Path(__file__).parents[1]
GOLDEN = json.loads((TESTS / "golden_beams.json").read_text("utf-8"))
CASES = [*GOLDEN["plain"], *GOLDEN["groups"]]
END = 0
SEARCH = Options(num_beams=4, n=4, max_tokens=10)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer"), fim_order="spm"))


def make_rows(
    tokenizer: Tokenizer, options: Options, *, end: Sequence[int], prompt: Sequence[int], size: int, seed: int = 0
) -> list[Row]:
    return [
        Row(
            index,
            Sampler(options, seed=seed, index=index, prompt=prompt, vocab_size=size, tokenizer=tokenizer),
            tokenizer.detokenizer(),
            StopStrings(options.stop),
            options.logprobs,
            frozenset(end),
            options.max_tokens or 0,
        )
        for index in range(options.n)
    ]


@cache
def open_reference(checkpoint: str) -> reference.Session:
    opened, family, decoder = open_checkpoint(TESTS / "golden" / checkpoint)
    return reference.Session(decoder, dict(Canonical(opened, family, decoder)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['checkpoint']} {case['options']}")
def test_the_texts_and_scores_are_those_of_transformers(tokenizer: Tokenizer, case: dict[str, Any]) -> None:
    session, prompt, options = open_reference(case["checkpoint"]), GOLDEN["prompt"], Options(**case["options"])
    check_together(options)
    session.rewind(0)
    beams = Beams(make_rows(tokenizer, options, end=GOLDEN["end"], prompt=prompt, size=session.vocab_size))
    for _ in generate(session, prompt, beams, Stopwatch(perf_counter())):
        pass
    found, first = [list(row.tokens) for row in beams.rows], GOLDEN["end"][0]
    if case in GOLDEN["groups"]:  # whose every end is written as the first of them
        found = [[first if token in GOLDEN["end"] else token for token in tokens] for tokens in found]
    assert found == [each["tokens"] for each in case["found"]]
    assert [row.score for row in beams.rows] == pytest.approx([each["score"] for each in case["found"]], rel=1e-4)


def replies_of(deltas: Sequence[Delta], n: int) -> list[Reply]:
    replies = [Reply() for _ in range(n)]
    for delta in deltas:
        replies[delta.index].add(delta)
    return replies


def test_the_engine_tells_the_best_texts_with_their_scores(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    deltas = list(engine.complete("hello", Options(num_beams=4, n=3, max_tokens=6, logprobs=2)))
    replies = replies_of(deltas, 3)
    scores = [reply.score or 0.0 for reply in replies]
    assert scores == sorted(scores, reverse=True) and len({reply.text for reply in replies}) == 3
    for reply in replies:
        assert reply.score == pytest.approx(reply.logprob / len(reply.tokens), abs=1e-4)
        assert all(len(token.alternatives) == 2 and token.seconds > 0 for token in reply.tokens)
        assert tokenizer.decode([token.id for token in reply.tokens if token.id != END]) == reply.text
    assert usage_of(deltas).completion_tokens == sum(len(reply.tokens) for reply in replies)
    assert {batch for batch, _ in session.calls} <= {1, 2, 3, 4} and session.batch == 1


def test_one_beam_more_finds_no_worse_text_than_the_greedy_one(tokenizer: Tokenizer) -> None:
    greedy = replies_of(
        list(make_engine(tokenizer)[0].complete("hello", Options(temperature=0, max_tokens=8, logprobs=0))), 1
    )[0]
    options = Options(num_beams=16, max_tokens=8, length_penalty=0.0, early_stopping="never", logprobs=0)
    best = replies_of(list(make_engine(tokenizer)[0].complete("hello", options)), 1)[0]
    assert best.logprob > greedy.logprob


def test_the_events_are_a_tree_in_which_every_branch_ends(tokenizer: Tokenizer) -> None:
    deltas = list(make_engine(tokenizer)[0].complete("hello", SEARCH))
    events = [event for delta in deltas for event in delta.beams]
    known, gone = {0}, set[int]()
    for event in events:
        if event.change == "pruned":
            assert event.beam in known - gone
            gone.add(event.beam)
        else:
            assert event.parent in known - gone and event.beam not in known
            known.add(event.beam)
    parents = {event.parent for event in events if event.change != "pruned"}
    finished = [event for event in events if event.change == "finished"]
    assert known - gone - parents <= {event.beam for event in finished}
    best = sorted((event.score for event in finished), reverse=True)[:4]
    assert [reply.score for reply in replies_of(deltas, 4)] == pytest.approx(best)
    assert {event.change for event in events} == {"extended", "pruned", "finished"}


def test_stop_strings_end_a_beam_and_are_not_told(tokenizer: Tokenizer) -> None:
    options = Options(num_beams=6, n=6, max_tokens=8, stop=("e", "o", " "), length_penalty=0.0)
    replies = replies_of(list(make_engine(tokenizer)[0].complete("hello", options)), 6)
    assert all(not set("eo ") & set(reply.text.lstrip()) for reply in replies)
    stopped = [reply for reply in replies if reply.finish_reason == "stop" and reply.tokens[-1].id != END]
    assert stopped and all(set("eo ") & set(tokenizer.decode([reply.tokens[-1].id])) for reply in stopped)


def test_what_is_typed_of_a_word_holds_in_every_beam(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer)
    prompt, taken = engine._prompts.of_gap("x = retu", "\n", None, 64)
    replies = replies_of(list(engine.infill("x = retu", "\n", Options(num_beams=3, n=3, max_tokens=6))), 3)
    for reply in replies:
        text = b"".join(tokenizer.content(token.id) for token in reply.tokens)
        assert text.startswith(b"".join(map(tokenizer.content, taken)))


def test_a_constraint_that_remembers_the_text_holds_in_every_beam(tokenizer: Tokenizer) -> None:
    prompt, breaks = "for i in x:", LineBreaks(tokenizer, 400)

    def indenting(tokens: Sequence[int], logits: np.ndarray) -> None:
        hashed(tokens, logits)
        logits[[token for token, text in enumerate(breaks.texts) if text and not text.strip(" \n")]] += 6

    engine, _ = make_engine(tokenizer, indenting)
    options = Options(num_beams=6, n=6, max_tokens=14, indentation=1)
    replies = replies_of(list(engine.complete(prompt, options)), 6)
    assert any("\n    " in reply.text for reply in replies)
    for reply in replies:
        tokens = [token.id for token in reply.tokens]
        constraint = Indentation(breaks, prompt, tokenizer.encode(prompt))
        for place, token in enumerate(tokens):
            allowed = constraint.allowed(tokens[:place])
            assert allowed is None or token in allowed


@pytest.mark.parametrize("after", range(5))
def test_closing_a_search_leaves_a_cache_that_the_next_turn_can_trust(tokenizer: Tokenizer, after: int) -> None:
    engine, session = make_engine(tokenizer)
    deltas = engine.complete("hello world", SEARCH)
    for _ in range(after):
        next(deltas)
    deltas.close()
    assert session.batch <= 1
    found = replies_of(list(engine.complete("hello world", SEARCH)), 4)
    assert [r.text for r in found] == [
        r.text for r in replies_of(list(make_engine(tokenizer)[0].complete("hello world", SEARCH)), 4)
    ]


def few(tokens: Sequence[int], logits: np.ndarray) -> None:
    """Logits with which six tokens may follow, and what is likely depends on the last one."""
    logits[:] = -math.inf
    logits[10:16] = [1.2, 0.4, 0.0, -0.3, -0.8, -1.2]
    logits[10:16] = np.roll(logits[10:16], tokens[-1] % 5)


def test_beams_are_drawn_without_replacement_by_their_probability(tokenizer: Tokenizer) -> None:
    draws, pairs = 3000, Counter[tuple[int, int]]()
    options = Options(temperature=1.0, top_k=0, top_p=1.0, num_beams=2, n=2, max_tokens=1, beam_sampling=True)
    logits = np.empty(400, np.float32)
    few([7], logits)
    chances = np.exp(logits[10:16].astype(np.float64))
    chances /= chances.sum()
    for seed in range(draws):
        rows = make_rows(tokenizer, options, end=[0], prompt=[7], size=400, seed=seed)
        beams = Beams(rows)
        beams.step(logits[None, None], None)
        first, second = sorted(row.tokens[0] - 10 for row in beams.rows)
        pairs[first, second] += 1

    def chi_square(chance: Any) -> float:
        expected = {(a, b): draws * chance(a, b) for a in range(6) for b in range(a + 1, 6)}
        return float(sum((pairs[pair] - count) ** 2 / count for pair, count in expected.items()))

    without = chi_square(lambda a, b: chances[a] * chances[b] * (1 / (1 - chances[a]) + 1 / (1 - chances[b])))
    assert without < 14 + 4 * math.sqrt(2 * 14)
    total = 1 - (chances**2).sum()
    assert chi_square(lambda a, b: 2 * chances[a] * chances[b] / total) > 14 + 4 * math.sqrt(2 * 14)


def test_filters_hold_for_drawn_beams_and_a_seed_draws_them_again(tokenizer: Tokenizer) -> None:
    options = Options(num_beams=3, n=3, max_tokens=6, beam_sampling=True, top_k=2, seed=4)
    engine, session = make_engine(tokenizer)
    found = replies_of(list(engine.complete("hello", options)), 3)
    prompt, logits = tokenizer.encode("hello"), np.empty(400, np.float32)
    for reply in found:
        tokens = [token.id for token in reply.tokens]
        for place, token in enumerate(tokens):
            hashed([*prompt, *tokens[:place]], logits)
            assert token in np.argsort(-logits)[:2]
    again = replies_of(list(make_engine(tokenizer)[0].complete("hello", options)), 3)
    assert [reply.text for reply in again] == [reply.text for reply in found]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (dict(num_beams=2, n=3), "a search with 2 beams finds 2 texts, not 3"),
        (dict(length_penalty=2), "length_penalty needs a beam search"),
        (dict(early_stopping=True), "early_stopping needs a beam search"),
        (dict(beam_sampling=True), "beam_sampling needs a beam search"),
        (dict(num_beams=4, num_beam_groups=3, diversity_penalty=1), "do not make 3 equal groups"),
        (dict(num_beams=4, num_beam_groups=2), "belong together"),
        (dict(num_beams=4, diversity_penalty=1), "belong together"),
        (dict(num_beams=4, num_beam_groups=2, diversity_penalty=1, beam_sampling=True), "leave one out"),
        (dict(num_beams=4, mirostat_tau=5), "mirostat_tau does not work with a beam search"),
        (dict(num_beams=4, beam_sampling=True, temperature=0), "a temperature of 0"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused_before_any_work(
    tokenizer: Tokenizer, given: dict[str, Any], reason: str
) -> None:
    engine, session = make_engine(tokenizer)
    with pytest.raises(OptionError, match=reason):
        engine.complete("hello", Options(**given))
    assert session.calls == []


@pytest.mark.skipif(available_memory() is None, reason="this system does not tell")
def test_beams_that_do_not_fit_into_memory_are_refused_before_any_work(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    session.token_bytes = 1 << 40
    with pytest.raises(
        GenerationError, match=r"4 beams of 1. tokens need up to .* of memory, and .* are free; lower num_beams"
    ):
        engine.complete("hello", replace(SEARCH, max_tokens=10))
    assert session.calls == []
    session.token_bytes = 1 << 10
    assert replies_of(list(engine.complete("hello", SEARCH)), 4)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("num_beams", 0, "from 1 to 64"),
        ("num_beams", None, "from 1 to 64"),
        ("num_beam_groups", 65, "from 1 to 64"),
        ("length_penalty", math.nan, "from -10 to 10"),
        ("diversity_penalty", -1, "from 0 to 1000"),
        ("early_stopping", "sometimes", "true, false or never"),
        ("beam_sampling", 2, "true or false"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(option: str, value: Any, allowed: str) -> None:
    with pytest.raises(OptionError, match=f"^{option} must be .*{allowed}"):
        Options(**{option: value})


def test_a_context_that_is_full_ends_the_search(tokenizer: Tokenizer) -> None:
    count = len(tokenizer.encode("hello world"))
    engine, session = make_engine(tokenizer, context_length=count + 3)
    options = Options(num_beams=3, n=3, logit_bias={END: -100})
    replies = replies_of(list(engine.complete("hello world", options)), 3)
    assert [(len(reply.tokens), reply.finish_reason) for reply in replies] == [(4, "length")] * 3
    assert isinstance(session, ScriptedSession)
