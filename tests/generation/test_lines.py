"""The likeliest lines, compared with all that there are, and lines that are given, scored token by token."""

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

import numpy as np
import pytest

from chatapp.generation import Options
from chatapp.generation.decoding.lines import FAR, Line
from chatapp.generation.engine import Engine
from chatapp.generation.text.infill import Gap
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import ScriptedSession, hashed, make_engine, text_of, write_tokenizer

SIZE = 400
PREFIX, SUFFIX = "def add(first, second):\n    retu", "\n"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer"), fim_order="spm"))


def few(tokenizer: Tokenizer) -> Callable[[Sequence[int], np.ndarray], None]:
    """Logits that look random, of a handful of tokens: every line can be listed."""
    texts = ["a", "b", "ab", "\n", "b\n", " \n", "\r\n", " return", "rn", "re", " re", "turn", "tu", "t"]
    ids = sorted({token for text in texts for token in tokenizer.encode(text)} | {0})

    def fill(tokens: Sequence[int], logits: np.ndarray) -> None:
        every = np.empty_like(logits)
        hashed(tokens, every)
        logits[:] = -40
        logits[ids] = every[ids] / 2

    return fill


def chances(session: ScriptedSession, tokens: Sequence[int], allowed: Sequence[int] | None = None) -> np.ndarray:
    logits = np.empty(SIZE, np.float32)
    session.logits(tokens, logits)
    exact = np.exp(logits.astype(np.float64))
    if allowed is not None:
        exact[[token for token in range(SIZE) if token not in allowed]] = 0
    found: np.ndarray = exact / exact.sum()
    return found


def healed(engine: Engine, prefix: str) -> tuple[list[int], bytes]:
    """The prompt that the engine reads, and what it has to spell first."""
    prompt, taken = engine._prompts.of_gap(prefix, SUFFIX, None, 64)
    return prompt, b"".join(map(engine.tokenizer.content, taken))


def agreeing(tokenizer: Tokenizer, rest: bytes) -> list[int]:
    contents = {token: tokenizer.content(token) for token in range(SIZE)}
    return [i for i, content in contents.items() if content and (content.startswith(rest) or rest.startswith(content))]


def list_lines(engine: Engine, session: ScriptedSession, prefix: str, length: int) -> dict[str, float]:
    """All lines of at most so many tokens, each with its probability, by walking the whole tree."""
    prompt, typed = healed(engine, prefix)
    lines: dict[str, float] = {}

    def walk(tokens: list[int], spelt: bytes, chance: float) -> None:
        rest = typed[len(spelt) :]
        found = chances(session, [*prompt, *tokens], agreeing(engine.tokenizer, rest) if rest else None)
        for token in np.flatnonzero(found > 1e-9).tolist():
            text = spelt + engine.tokenizer.content(token)
            told = text[len(typed) :].decode(errors="replace")
            ended = token in engine._line_ends.ending and not rest
            if ended or "\n" in told or "\r" in told:
                line = told if ended else told.replace("\r", "\n").split("\n")[0].rstrip(" \t")
                line = line.replace("\r", "\n").split("\n")[0]
                lines[line] = lines.get(line, 0) + chance * found[token]
            elif len(tokens) < length:
                walk([*tokens, token], text, chance * found[token])

    walk([], b"", 1.0)
    return lines


@pytest.mark.parametrize("prefix", ["a = ", "x = re", "ab"])
def test_a_wide_search_finds_every_line_with_its_whole_probability(tokenizer: Tokenizer, prefix: str) -> None:
    engine, session = make_engine(tokenizer, few(tokenizer))
    expected = list_lines(engine, session, prefix, 3)
    likeliest = sorted(expected, key=lambda line: -expected[line])[:3]
    lines = engine.find_lines(prefix, SUFFIX, width=40, count=40)
    assert lines and [line.logprob for line in lines] == sorted([line.logprob for line in lines], reverse=True)
    found = {line.text: line.logprob for line in lines}
    assert len(found) == len(lines)
    assert min(found.values()) >= lines[0].logprob - FAR
    for line in likeliest:
        assert np.exp(found[line]) >= expected[line] * 0.999  # longer spellings may add to it
        assert np.exp(found[line]) == pytest.approx(expected[line], rel=0.15)


def test_one_beam_goes_the_greedy_way(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer, few(tokenizer))
    lines = engine.find_lines(PREFIX, SUFFIX, width=1, count=1)
    assert lines
    prompt, typed = healed(engine, PREFIX)
    tokens: list[int] = []
    for token in lines[0].tokens:
        rest = typed[len(b"".join(map(tokenizer.content, tokens))) :]
        found = chances(session, [*prompt, *tokens], agreeing(tokenizer, rest) if rest else None)
        if not rest:
            found[engine._line_ends.ending] = 0
        assert token == found.argmax()
        tokens.append(token)
    assert PREFIX + lines[0].text == tokenizer.decode([*prompt[prompt.index(3) + 1 :], *lines[0].tokens])


def plain_score(engine: Engine, session: ScriptedSession, prefix: str, text: str) -> float:
    prompt, typed = healed(engine, prefix)
    taken = engine._prompts.of_gap(prefix, SUFFIX, None, 64)[1]
    encode = engine.tokenizer.encode
    total = 0.0
    for spelling in {(*taken, *encode(text)), tuple(encode(typed.decode() + text))}:
        chance, spelt = 1.0, b""
        for place, token in enumerate(spelling):
            rest = typed[len(spelt) :]
            allowed = agreeing(engine.tokenizer, rest) if rest else None
            chance *= chances(session, [*prompt, *spelling[:place]], allowed)[token]
            spelt += engine.tokenizer.content(token)
        total += chance * chances(session, [*prompt, *spelling])[engine._line_ends.ending].sum()
    return float(np.log(total))


@pytest.mark.parametrize("rows_apart", [False, True])
@pytest.mark.parametrize("prefix", [PREFIX, "x = ", "größ", ""])
def test_given_lines_are_scored_in_both_spellings_with_their_end(
    tokenizer: Tokenizer, prefix: str, rows_apart: bool
) -> None:
    engine, session = make_engine(tokenizer)
    session.rows_apart = rows_apart
    texts = ["rn first + second", "", "日本", "rn", "urn range(10): print(i)"]
    scores = engine.score_lines(prefix, SUFFIX, texts)
    assert scores == pytest.approx([plain_score(engine, session, prefix, text) for text in texts], abs=1e-3)
    assert session.length == len(healed(engine, prefix)[0]) and session.batch == 1
    assert engine.score_lines(prefix, SUFFIX, []) == []


def test_a_found_line_s_probability_is_that_of_all_its_spellings_and_at_least_its_score(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, few(tokenizer))
    lines = engine.find_lines("ab", SUFFIX, width=64, count=3) or []
    scores = engine.score_lines("ab", SUFFIX, [line.text for line in lines]) or []
    assert len(lines) == 3
    for line, score in zip(lines, scores, strict=True):
        assert line.logprob >= score - 1e-3


def test_what_is_searched_and_scored_leaves_the_prompt_so_that_typing_on_reads_only_what_is_new(
    tokenizer: Tokenizer,
) -> None:
    engine, session = make_engine(tokenizer)
    engine.find_lines("x = first", SUFFIX)
    whole = session.calls[0]
    session.calls.clear()
    assert session.batch == 1
    engine.score_lines("x = first", SUFFIX, ["a", "bb"])
    assert session.calls[0] == (1, 1) and session.batch == 1
    session.calls.clear()
    engine.find_lines("x = first + sec", SUFFIX)
    assert session.calls[0][1] < whole[1] - 4
    session.calls.clear()
    again = text_of(engine.infill("x = first + sec", SUFFIX, Options(temperature=0, max_tokens=9)))
    assert session.calls[0] == (1, 1)
    fresh, _ = make_engine(tokenizer)
    assert again == text_of(fresh.infill("x = first + sec", SUFFIX, Options(temperature=0, max_tokens=9)))


def test_all_rows_of_the_search_are_one_batch_and_no_wider_than_asked_for(tokenizer: Tokenizer) -> None:
    engine, session = make_engine(tokenizer)
    engine.find_lines(PREFIX, SUFFIX, width=3)
    assert {batch for batch, _ in session.calls} <= {1, 2, 3} and max(session.calls)[0] == 3


@pytest.mark.parametrize("after", range(4))
def test_what_is_no_longer_wanted_ends_and_leaves_a_cache_that_can_be_trusted(tokenizer: Tokenizer, after: int) -> None:
    engine, session = make_engine(tokenizer)
    answers = iter([True] * after + [False] * 9)
    assert engine.find_lines(PREFIX, SUFFIX, wanted=lambda: next(answers)) is None
    answers = iter([True] * (after % 2) + [False] * 9)
    assert engine.score_lines(PREFIX, SUFFIX, ["a", "b"], wanted=lambda: next(answers)) is None
    assert session.batch <= 1
    assert engine.find_lines(PREFIX, SUFFIX) == make_engine(tokenizer)[0].find_lines(PREFIX, SUFFIX)


def test_a_line_for_which_the_context_has_no_room_has_no_probability(tokenizer: Tokenizer) -> None:
    engine, _ = make_engine(tokenizer, context_length=40)
    scores = engine.score_lines("x" * 200, SUFFIX, ["a", "日本" * 20])
    assert scores and scores[0] > -inf and scores[1] == -inf
    lines = engine.find_lines("x" * 200, SUFFIX)
    assert lines is not None and all(isinstance(line, Line) for line in lines)


def test_a_model_that_was_not_taught_to_fill_gaps_goes_on_with_the_prefix(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path) / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace("<fim_", "<other_"), encoding="utf-8")
    engine, session = make_engine(Tokenizer(tmp_path))
    lines = engine.find_lines("for i in ran", SUFFIX)
    scores = engine.score_lines("for i in ran", SUFFIX, ["ge(10):", ""])
    assert lines and scores == pytest.approx([plain_score(engine, session, "for i in ran", t) for t in ["ge(10):", ""]])
    assert session.rows[0] == engine.tokenizer.encode("for i in ran")[: session.length]


def test_an_encoder_decoder_s_lines_begin_with_the_mark_of_the_gap(tokenizer: Tokenizer) -> None:
    class Encoding(ScriptedSession):
        whole_prompts = True

    session = Encoding(hashed, vocab_size=SIZE)
    engine = Engine(session, tokenizer)
    gap = Gap(sentinel=5, end=frozenset([0]))
    engine._prompts.gap = gap
    texts = ["a", "first"]
    prompt = gap.prompt(tokenizer, "x = ", SUFFIX, SIZE)
    expected = []
    for text in texts:
        chance, tokens = 1.0, [5, *tokenizer.encode(text)]
        for place, token in enumerate(tokens):
            chance *= chances(session, [*prompt, *tokens[:place]])[token]
        expected.append(np.log(chance * chances(session, [*prompt, *tokens])[engine._line_ends.ending].sum()))
    assert engine.score_lines("x = ", SUFFIX, texts) == pytest.approx(expected, abs=1e-3)
    assert engine.find_lines("x = ", SUFFIX) is not None
