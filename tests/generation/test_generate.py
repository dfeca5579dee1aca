"""The loop from prompt tokens to sampled tokens, on a session that really keeps rows."""

from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from backends import ContextExceeded
from backends.rereading import PART
from chatapp.generation.decoding.generate import Stopwatch, generate
from chatapp.generation.decoding.row import Row, Rows
from chatapp.generation.decoding.sampling import Sampler
from chatapp.generation.decoding.stop import StopStrings
from chatapp.generation.options import Options
from chatapp.generation.text.tokenizer import Tokenizer
from support.scripted_session import ScriptedSession, hashed, saying, write_tokenizer

PROMPT = [7, 8, 9]
SIZE = 400


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(Path(tmp_path_factory.mktemp("tokenizer"))))


def make_rows(
    tokenizer: Tokenizer, options: Options, *, limit: int = 8, end: frozenset[int] = frozenset(), first: int = 0
) -> list[Row]:
    return [
        Row(
            index,
            Sampler(options, seed=options.seed or 0, index=index, prompt=PROMPT, vocab_size=SIZE),
            tokenizer.detokenizer(),
            StopStrings(()),
            options.logprobs,
            end,
            limit,
        )
        for index in range(first, first + options.n)
    ]


def run(session: ScriptedSession, rows: list[Row], prompt: list[int] = PROMPT) -> list[list[int]]:
    for _ in generate(session, prompt, Rows(rows), Stopwatch(perf_counter())):
        pass
    return [row.tokens for row in rows]


def plain(row: Row) -> list[int]:
    """What a row should sample: the logits of its own history, one token after the other."""
    logits = np.empty(SIZE, np.float32)
    while not row.finish_reason:
        hashed(PROMPT + row.tokens, logits)
        row.sample(logits)
    return row.tokens


@pytest.mark.parametrize("options", [Options(temperature=0), Options(seed=3), Options(top_k=0, seed=4)], ids=str)
def test_tokens_are_sampled_from_the_logits_of_the_tokens_before(tokenizer: Tokenizer, options: Options) -> None:
    session = ScriptedSession(hashed, vocab_size=SIZE)
    assert run(session, make_rows(tokenizer, options)) == [plain(row) for row in make_rows(tokenizer, options)]


def test_n_rows_are_one_batch_whose_prompt_is_read_once(tokenizer: Tokenizer) -> None:
    session, options = ScriptedSession(hashed, vocab_size=SIZE), Options(n=3, temperature=2.0, seed=5)
    rows = make_rows(tokenizer, options, limit=4)
    assert run(session, rows) == [plain(row) for row in make_rows(tokenizer, options, limit=4)]
    assert session.calls == [(1, 3), (3, 1), (3, 1), (3, 1)]
    assert len({tuple(row.tokens) for row in rows}) == 3


def test_a_row_does_not_depend_on_how_many_run_beside_it(tokenizer: Tokenizer) -> None:
    many = make_rows(tokenizer, Options(n=4, seed=6, temperature=1.5))
    alone = make_rows(tokenizer, Options(n=1, seed=6, temperature=1.5), first=2)
    run(ScriptedSession(hashed, vocab_size=SIZE), many)
    run(ScriptedSession(hashed, vocab_size=SIZE), alone)
    assert alone[0].tokens == many[2].tokens


def test_finished_rows_leave_the_batch_and_the_others_go_on_undisturbed(tokenizer: Tokenizer) -> None:
    options, end = Options(n=6, seed=1, temperature=3.0, top_k=0, top_p=1.0), frozenset(range(0, SIZE, 4))
    rows = make_rows(tokenizer, options, end=end, limit=12)
    session = ScriptedSession(hashed, vocab_size=SIZE)
    assert run(session, rows) == [plain(row) for row in make_rows(tokenizer, options, end=end, limit=12)]
    batches = [batch for batch, _ in session.calls[1:]]
    assert batches == sorted(batches, reverse=True) and len(set(batches)) > 2
    assert {row.finish_reason for row in rows} >= {"stop"}
    lengths = [len(row.tokens) for row in rows]
    assert batches == [sum(length > step for length in lengths) for step in range(1, max(lengths))]


def test_an_end_token_stops_and_the_limit_is_a_length(tokenizer: Tokenizer) -> None:
    def finish(limit: int) -> tuple[list[int], str | None]:
        rows = make_rows(tokenizer, Options(temperature=0), end=frozenset([0]), limit=limit)
        run(ScriptedSession(saying([11, 12], 0), vocab_size=SIZE), rows)
        return rows[0].tokens, rows[0].finish_reason

    assert finish(8) == ([11, 12, 0], "stop")
    assert finish(3) == ([11, 12, 0], "stop")
    assert finish(2) == ([11, 12], "length")


def test_a_long_prompt_is_read_in_parts_between_which_one_can_stop(tokenizer: Tokenizer) -> None:
    prompt = [i % SIZE for i in range(PART * 2 + 5)]
    session = ScriptedSession(hashed, vocab_size=SIZE, context_length=2000)
    steps = generate(session, prompt, Rows(make_rows(tokenizer, Options())), Stopwatch(0))
    told = [next(steps) for _ in range(3)]
    assert [(len(step.totals), step.read) for step in told] == [(0, PART), (0, PART), (1, 5)]
    assert session.calls == [(1, PART), (1, PART), (1, 5)]


def test_the_last_token_is_sampled_but_not_read(tokenizer: Tokenizer) -> None:
    session = ScriptedSession(hashed, vocab_size=SIZE, context_length=8)
    rows = make_rows(tokenizer, Options(), limit=6)
    run(session, rows)
    assert session.rows == [PROMPT + rows[0].tokens[:5]]
    with pytest.raises(ContextExceeded):
        run(ScriptedSession(hashed, vocab_size=SIZE, context_length=8), make_rows(tokenizer, Options(), limit=7))


def test_log_probabilities_come_with_each_token_when_asked_for(tokenizer: Tokenizer) -> None:
    rows = make_rows(tokenizer, Options(logprobs=3, seed=2), limit=1)
    run(ScriptedSession(hashed, vocab_size=SIZE), rows)
    logits = np.empty(SIZE, np.float32)
    hashed(PROMPT, logits)
    exact = logits.astype(np.float64) - np.log(np.exp(logits.astype(np.float64)).sum())
    (token,), *_ = rows[0].tell([0.0])
    assert token.logprob == pytest.approx(exact[rows[0].tokens[0]], abs=1e-5)
    assert [alternative.id for alternative in token.alternatives] == np.argsort(-exact)[:3].tolist()
