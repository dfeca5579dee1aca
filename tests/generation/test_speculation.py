"""Speculation changes nothing but the number of steps: with random models, and all that decides about tokens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import tokenizers

from backends import Placement
from chatapp.generation import Delta, GenerationError, OptionError, Options, Reply
from chatapp.generation import engine as engine_module
from chatapp.generation.decoding.drafts import DraftModel, Lookup
from chatapp.generation.decoding.generate import Step, Stopwatch
from chatapp.generation.decoding.row import Row
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.decoding.speculation import PATIENCE, Pace, Speculation
from chatapp.generation.decoding.stop import StopStrings
from chatapp.generation.engine import Engine
from chatapp.generation.options import check_together
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import ScriptedSession, hashed, make_engine, write_tokenizer

PLAIN = Options(temperature=0.0, max_tokens=60, speculate=False, seed=3)


class Eager(Pace):
    """Guesses always, by turns more and less: what pays is another matter."""

    def choose(self, quality: int) -> int:
        return (1, 3, 7, 2)[self.steps % 4]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "Pace", Eager)


def repeating(tokens: Sequence[int], logits: np.ndarray) -> None:
    """A model that has said much of what it says before, but not all: of the last token only, and seldom of more."""
    hashed(tokens[-1:], logits)
    if sum(tokens[-4:]) % 5 == 0:
        logits[sum(tokens[-3:]) % logits.size] += 12
    logits[0] = -30


def answer(engine: Engine, options: Options, prompt: str = "hello hello world, hello hello") -> Reply:
    reply = Reply()
    for delta in engine.complete(prompt, options):
        reply.add(delta)
    return reply


def known(reply: Reply) -> list[tuple[int, str, float | None, object]]:
    return [(token.id, token.text, token.logprob, token.alternatives) for token in reply.tokens]


CASES = {
    "greedy": {},
    "sampled": {"temperature": 1.0},
    "xtc": {"temperature": 1.0, "xtc_probability": 0.5},
    "mirostat": {"temperature": 0.3, "top_k": 0, "top_p": 1.0, "mirostat_tau": 1.0},
    "logprobs": {"temperature": 0.7, "logprobs": 3},
    "penalties": {"repetition_penalty": 1.05, "frequency_penalty": 0.02, "dry_multiplier": 0.01},
    "no repeats": {"no_repeat_ngram_size": 6, "temperature": 0.5},
    "stop": {"stop": ("e",), "temperature": 0.6},
    "regex": {"regex": "([a-z]{1,6} ){3,30}end", "temperature": 0.8},
    "schema": {"json_schema": '{"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 6, "maxItems": 9}'},
}


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_that_of_plain_steps(tokenizer: Tokenizer, eager: None, case: str) -> None:
    drafted = accepted = 0
    for seed in range(8):
        options = replace(PLAIN, seed=seed, **CASES[case])  # type: ignore[arg-type]
        plain_engine, _ = make_engine(tokenizer, repeating)
        engine, session = make_engine(tokenizer, repeating)
        plain, quick = answer(plain_engine, options), answer(engine, replace(options, speculate=True))
        assert known(quick) == known(plain) and quick.text == plain.text
        assert quick.finish_reason == plain.finish_reason and quick.valid == plain.valid
        prompt = tokenizer.encode_prompt("hello hello world, hello hello")
        tokens = [token.id for token in quick.tokens]
        assert session.rows[0] == [*prompt, *tokens][: session.length] and session.length >= len(prompt)
        assert quick.usage and len(quick.latencies) == len(tokens) - 1
        assert sum(token.guessed for token in quick.tokens) == quick.usage.accepted
        drafted, accepted = drafted + quick.usage.drafted, accepted + quick.usage.accepted
    assert 0 < accepted < drafted  # guesses were right, and guesses were wrong


def test_fewer_steps_are_taken(tokenizer: Tokenizer, eager: None) -> None:
    engine, session = make_engine(tokenizer, repeating)
    reply = answer(engine, replace(PLAIN, speculate=True))
    assert reply.usage and len(session.calls) == 60 - reply.usage.accepted < 60


def test_what_is_drawn_is_distributed_as_the_model_says(tokenizer: Tokenizer, eager: None) -> None:
    """Chi-square of what follows each token, at top_k 4, where guesses are right in a part of the cases."""

    def halves(tokens: Sequence[int], logits: np.ndarray) -> None:
        logits[:] = -40
        logits[10:16] = np.log([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
        logits[10:16] = np.roll(logits[10:16], tokens[-1] % 3)

    options = replace(PLAIN, temperature=1.0, top_k=4, top_p=1.0, max_tokens=4000, speculate=True)
    engine = Engine(ScriptedSession(halves, vocab_size=400, context_length=4100), tokenizer, hold=0.0)
    reply = answer(engine, options)
    tokens = [token.id for token in reply.tokens]
    pairs = Counter(zip(tokens, tokens[1:], strict=False))
    assert reply.usage and 0.15 < reply.usage.accepted / reply.usage.drafted < 0.85
    square = degrees = 0.0
    for before in range(10, 16):
        total = sum(pairs[before, after] for after in range(10, 16))
        logits = np.empty(400, np.float32)
        halves([before], logits)
        chances = np.exp(logits[10:16])
        chances[np.argsort(-chances)[4:]] = 0
        for place, chance in enumerate(chances / chances.sum()):
            if not chance:
                assert not pairs[before, 10 + place]
            elif (expected := chance * total) > 5:
                square, degrees = square + (pairs[before, 10 + place] - expected) ** 2 / expected, degrees + 0.75
    assert square < degrees + 4 * (2 * degrees) ** 0.5  # four standard deviations


def test_the_cache_serves_the_next_turn_after_a_turn_was_cut_short(tokenizer: Tokenizer, eager: None) -> None:
    for stopped in range(1, 25, 3):
        engine, _ = make_engine(tokenizer, repeating)
        stream = engine.complete("hello hello world, hello hello", replace(PLAIN, speculate=True, seed=None))
        text = "".join(next(stream).text for _ in range(stopped))
        stream.close()
        again = replace(PLAIN, seed=None)
        fresh, _ = make_engine(tokenizer, repeating)
        prompt = "hello hello world, hello hello" + text
        assert answer(engine, again, prompt).text == answer(fresh, again, prompt).text


def test_a_turn_ends_where_the_context_ends(tokenizer: Tokenizer, eager: None) -> None:
    plain, _ = make_engine(tokenizer, repeating, 40)
    engine, session = make_engine(tokenizer, repeating, 40)
    options = replace(PLAIN, max_tokens=None)
    told = answer(engine, replace(options, speculate=True))
    assert told.text == answer(plain, options).text and told.finish_reason == "length" and session.length <= 40


def test_with_a_seed_tokens_are_read_one_by_one_unless_asked_for(tokenizer: Tokenizer, eager: None) -> None:
    for options, guesses in (
        (replace(PLAIN, speculate=None), False),
        (replace(PLAIN, speculate=None, seed=None), True),
        (replace(PLAIN, speculate=True), True),
        (replace(PLAIN, speculate=False, seed=None), False),
        (replace(PLAIN, speculate=None, seed=None, n=2), False),
    ):
        engine, session = make_engine(tokenizer, repeating)
        list(engine.complete("hello hello world, hello hello", options))
        assert (max(count for _, count in session.calls[1:]) > 1) == guesses


@pytest.mark.parametrize(("place", "alike"), [("onnx f32", True), ("onnx int4", False), ("onnx int8", False)])
def test_text_is_guessed_by_itself_only_where_it_stays_the_same(
    tokenizer: Tokenizer, eager: None, place: str, alike: bool
) -> None:
    backend, precision = place.split()
    nearly_greedy = 0.001  # sampled, and yet not now and then a text that repeats nothing
    for temperature, speculate, guesses in ((0.0, None, alike), (0.0, True, True), (nearly_greedy, None, alike)):
        engine, session = make_engine(tokenizer, repeating)
        session.placement = Placement(backend, "cpu", precision)
        options = replace(PLAIN, temperature=temperature, seed=None, speculate=speculate)
        list(engine.complete("hello hello world, hello hello", options))
        assert (max(count for _, count in session.calls[1:]) > 1) == guesses


def make_pair(tokenizer: Tokenizer, doubt: float) -> tuple[Engine, ScriptedSession, ScriptedSession]:
    """A model, its session, and that of a smaller one that is of the same opinion but for some doubt."""

    def like_it(tokens: Sequence[int], logits: np.ndarray) -> None:
        hashed(tokens, logits)
        logits += doubt * np.random.default_rng(len(tokens)).normal(0, 1, logits.size).astype(np.float32)

    engine, session = make_engine(tokenizer, hashed)
    draft, small = make_engine(tokenizer, like_it)
    engine.speculate_with(draft)
    return engine, session, small


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("doubt", [0.0, 1.0, 100.0])
def test_a_draft_model_changes_nothing_however_good_it_is(
    tokenizer: Tokenizer, eager: None, temperature: float, doubt: float
) -> None:
    options = replace(PLAIN, temperature=temperature, speculate=True)
    engine, session, small = make_pair(tokenizer, doubt)
    plain, _ = make_engine(tokenizer, hashed)
    for prompt in ("hello world", "hello world and more"):  # the second turn begins with what the draft model has read
        quick = answer(engine, options, prompt)
        assert known(quick) == known(answer(plain, replace(options, speculate=False), prompt))
        assert quick.usage and quick.usage.drafted
        share = quick.usage.accepted / quick.usage.drafted
        assert share == 1 if not doubt else share < 0.2 if doubt > 10 else 0.2 < share < 1
        read, said = small.rows[0], session.rows[0]
        assert read[: len(said) - 8] == said[: len(said) - 8]


def test_a_draft_model_of_another_vocabulary_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    other = tokenizers.Tokenizer.from_file(str(write_tokenizer(tmp_path) / "tokenizer.json"))
    other.add_tokens(["another"])
    other.save(str(tmp_path / "tokenizer.json"))
    engine, session = make_engine(tokenizer)
    draft, _ = make_engine(Tokenizer(tmp_path), vocab_size=401)
    with pytest.raises(GenerationError, match="the draft model has another vocabulary"):
        engine.speculate_with(draft)
    small, _ = make_engine(tokenizer, vocab_size=300)
    with pytest.raises(GenerationError, match="has logits for 300 tokens, and its tokenizer has 373"):
        engine.speculate_with(small)
    assert not session.calls and engine.draft is None


def test_several_texts_are_not_speculated_about() -> None:
    for several in (Options(speculate=True, n=2), Options(speculate=True, num_beams=2)):
        with pytest.raises(OptionError, match="speculate works for one text"):
            check_together(several)
    with pytest.raises(OptionError, match="speculate must be true or false"):
        Options(speculate=3)  # type: ignore[arg-type]


def test_a_lookup_finds_what_followed_the_same_tokens() -> None:
    for seed in range(30):
        chance, lookup, tokens = Random(seed), Lookup(), list[int]()
        lag = 0
        for _ in range(60):
            tokens += [chance.randrange(3) for _ in range(chance.randrange(1, 4))]
            expected = dict[int, int]()
            for length in (5, 2, 1):
                ends = range(length, len(tokens))
                if places := [end for end in ends if tokens[end - length : end] == tokens[-length:]]:
                    near = min(places, key=lambda place: abs(place - (len(tokens) - lag)))
                    place = near if lag and length == 5 else places[-1]
                    if place not in expected.values():
                        expected[length] = place
            if lag and len(tokens) - lag not in expected.values():
                expected[0] = len(tokens) - lag
            assert list(lookup.find(tokens)) == list(expected)
            if expected:
                kind = chance.choice(list(expected))
                lag = len(tokens) - expected[kind]
                following = list(tokens[expected[kind] :])
                while len(following) < 9:
                    following.append(following[-lag])
                assert list(lookup.draft(tokens, kind, 9)) == following[:9]


def test_a_lookup_goes_on_copying_after_what_was_changed() -> None:
    """Where two tokens of a text are others, only these are guessed wrongly."""
    old, new = [*range(1, 17)], [*range(1, 7), 98, *range(8, 13), 99, *range(14, 17)]
    lookup, tokens, wrong = Lookup(), [*old, 0, *new[:5]], list[int]()
    for token in new[5:]:
        kinds = lookup.find(tokens)
        guess = lookup.draft(tokens, max(kinds, key=lambda kind: kinds[kind]), 1)[0]
        wrong += [token] if guess != token else []
        tokens.append(token)
    assert wrong == [98, 99]


def fill(pace: Pace, costs: dict[int, float]) -> None:
    pace.best({3: 0.75, 5: 0.75})
    for width, seconds in costs.items():
        for _ in range(4):
            pace.note(width, seconds)


CHEAP = {1: 1.0, 2: 1.05, 4: 1.1, 8: 1.2, 16: 1.4}
DEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0, 16: 16.0}


def test_guesses_are_long_where_steps_are_cheap_and_guesses_right() -> None:
    pace = Pace()
    fill(pace, CHEAP)
    for _ in range(20):
        pace.judge(3, 15, 15)
    assert pace.choose(3) == 15
    for _ in range(60):
        pace.judge(3, 1, 2)
    assert pace.choose(3) in (1, 3)


def test_widths_are_tried_step_by_step() -> None:
    pace = Pace()
    assert pace.best({3: 0.75, 1: 0.8}) == 1
    assert pace.choose(3) == 0  # nothing is known yet
    fill(pace, {1: 1.0})
    assert pace.choose(3) == 1
    fill(pace, {2: 1.05})
    assert pace.choose(3) == 3


@pytest.mark.parametrize("costs", [CHEAP, DEAR], ids=["wrong", "dear"])
def test_what_loses_is_left_off_and_tried_again_ever_more_seldom(costs: dict[int, float]) -> None:
    pace = Pace()
    fill(pace, costs)
    tried = []
    for place in range(20 * PATIENCE):
        pace.steps = 1
        if count := pace.choose(3):
            tried.append(place)
            pace.judge(3, 0, min(count, 1))
    gaps = [later - earlier for earlier, later in zip(tried, tried[1:], strict=False) if later - earlier > 1]
    assert gaps[-1] >= 4 * PATIENCE and len(tried) < 40
    assert pace.choose(5) if costs is CHEAP else not pace.choose(5)  # guesses of another quality may be right


def test_the_gain_is_what_plain_steps_would_have_taken(tokenizer: Tokenizer) -> None:
    class Clock(Stopwatch):
        def __init__(self) -> None:
            self.total = 0.0

    def fill_in(token: int) -> np.ndarray:
        logits = np.full(400, -9.0, np.float32)
        logits[token] = 9
        return logits

    text = [20, 21, 22, 23, 24, 25, 26, 27]
    options, clock = Options(temperature=0.0), Clock()
    sampler = Sampler(options, seed=0, index=0, prompt=text, vocab_size=400, tokenizer=tokenizer)
    row = Row(0, sampler, tokenizer.detokenizer(), StopStrings(()), None, frozenset(), 200)
    decoding = Speculation(row, Lookup(), text, clock)
    step: Step = decoding.step(fill_in(20)[None, None], None)
    for _ in range(30):
        clock.total += 1.0 if len(step.more) == 0 else 1.5
        wanted = [20 + (len(row.tokens) + place) % 8 for place in range(step.last)]
        step = decoding.step(np.stack([fill_in(token) for token in wanted])[None], None)
    assert [token - 20 for token in row.tokens] == [place % 8 for place in range(len(row.tokens))]
    assert decoding.drafted == decoding.accepted > 100
    assert decoding.gain and decoding.gain == pytest.approx((len(row.tokens) - 1) / clock.total) and decoding.gain > 2


def deltas_of(engine: Engine, options: Options) -> list[Delta]:
    return list(engine.complete("hello hello world, hello hello", options))


def test_several_tokens_of_a_step_are_told_with_their_shares_of_its_time(tokenizer: Tokenizer, eager: None) -> None:
    engine, _ = make_engine(tokenizer, repeating)
    told = [delta for delta in deltas_of(engine, replace(PLAIN, speculate=True)) if len(delta.tokens) > 1]
    assert told and all(max(x.seconds for x in d.tokens) < 1.01 * min(x.seconds for x in d.tokens) + 1e-6 for d in told)


def test_a_draft_model_is_left_alone_where_its_context_ends(tokenizer: Tokenizer) -> None:
    session = ScriptedSession(hashed, vocab_size=400, context_length=12)
    sampler = Sampler(PLAIN, seed=0, index=0, prompt=(), vocab_size=400)
    draft = DraftModel(session, sampler, 400)
    assert draft.find(range(11)) and not draft.find(range(12))
    assert len(draft.draft(list(range(20, 30)), 1, 7)) == 2 and session.length <= 12
    assert not DraftModel(session, sampler, 1).draft([5, 6], 1, 3)  # tokens that the model does not know


def test_a_turn_guesses_no_more_where_another_one_joins(tokenizer: Tokenizer, eager: None) -> None:
    prompts = ("hello hello world, hello hello", "world hello world hello")
    alone = [answer(make_engine(tokenizer, repeating)[0], replace(PLAIN, seed=None), prompt) for prompt in prompts]
    drafted = 0
    for taken in range(2, 60, 11):
        engine, _ = make_engine(tokenizer, repeating)
        first = engine.complete(prompts[0], replace(PLAIN, seed=None, speculate=True))
        told = list(islice(first, taken))
        second = list(engine.complete(prompts[1], replace(PLAIN, seed=None, speculate=None)))
        told += first
        for reply, deltas in zip(alone, (told, second), strict=True):
            assert "".join(delta.text for delta in deltas) == reply.text
        assert told[-1].usage
        drafted += told[-1].usage.drafted
    assert drafted
