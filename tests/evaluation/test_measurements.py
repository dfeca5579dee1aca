"""The figures of an answer, and the files that other programs read them from."""

import csv
import io
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from chatapp.evaluation.measurements import (
    Answer,
    as_csv,
    as_json,
    escape,
    find_probability,
    measure_certainty,
    propose_path,
    save,
)
from chatapp.generation.delta import Alternative, Token
from chatapp.text.errors import InputError
from support.scripted_engine import summary

LATENCIES = (0.010, 0.012, 0.030, 0.011)


def token(text: str, share: float | None = 0.5, seconds: float = 0.01, number: int = 0) -> Token:
    logprob = None if share is None else math.log(share) if share else -math.inf
    others = () if logprob is None else (Alternative(number, text, logprob), Alternative(99, "\x1b[2J", -math.inf))
    return Token(number, text, logprob, others, seconds)


def answered(tokens: int = 5) -> list[Token]:
    seconds = (0.034, *LATENCIES)
    return [token(f" t{i}", 0.9 - 0.2 * i, seconds[i], i) for i in range(tokens)]


# Figures


def test_a_live_usage_and_a_stored_one_give_the_same_answer() -> None:
    usage = summary(20, list(LATENCIES))
    stored = {name: value for name, value in asdict(usage).items() if name != "latencies"}
    live = Answer.of(usage, model="builtin")
    assert live == Answer.of(json.loads(json.dumps(stored)), (), LATENCIES, model="builtin")
    assert live.latencies == LATENCIES
    assert live.peak_memory == 123_000_000


def test_the_figures_are_those_of_the_usage() -> None:
    usage = summary(20, list(LATENCIES))
    figures = Answer.of(usage).figures()
    for name in ("p50", "p95", "p99", "first_token", "last_token", "tokens_per_second", "time_to_first_token"):
        assert figures[name] == pytest.approx(getattr(usage, name)), name
    assert figures["prefill_tokens_per_second"] == pytest.approx(20 / 0.021)
    assert (figures["backend"], figures["device"], figures["precision"]) == ("onnx", "cpu", "int8")


def test_cached_tokens_were_not_read() -> None:
    usage = asdict(summary(20, list(LATENCIES))) | {"cached_tokens": 15}
    assert Answer.of(usage).prefill_rate == pytest.approx(5 / 0.021)
    assert Answer.of(usage | {"cached_tokens": 20}).prefill_rate is None


def test_the_time_since_the_question_adds_up() -> None:
    steps = Answer.of(None, answered()).steps
    assert [step.seconds for step in steps] == [0.034, *LATENCIES]
    assert steps[-1].elapsed == pytest.approx(0.034 + sum(LATENCIES))
    assert Answer.of(None, answered()).latencies == LATENCIES


def test_latencies_alone_follow_the_first_token() -> None:
    steps = Answer.of(summary(20, list(LATENCIES))).steps
    assert [step.number for step in steps] == [1, 2, 3, 4, 5]
    assert steps[0].seconds == 0.0337
    assert steps[2].elapsed == pytest.approx(0.0337 + 0.010 + 0.012)


def test_of_several_answers_together_nobody_knows_when_each_token_came() -> None:
    usage = asdict(summary(20, list(LATENCIES))) | {"completion_tokens": 7}
    steps = Answer.of(usage).steps
    assert {step.elapsed for step in steps} == {None}
    own = Answer.of(usage, answered(3))
    assert own.latencies == LATENCIES[:2]


def test_what_was_not_measured_is_missing_and_not_zero() -> None:
    answer = Answer.of({})
    assert answer.steps == ()
    assert {name: value for name, value in answer.figures().items() if value is not None} == {"model": "", "begun": 0}


def test_a_usage_from_a_foreign_file_cannot_break_the_figures() -> None:
    strange = {
        "p50": "x",
        "prompt_tokens": "many",
        "prefill_seconds": math.nan,
        "seed": True,
        "backend": 7,
        "device": "cpu",
    }
    answer = Answer.of(strange, answered())
    assert (answer.prompt_tokens, answer.prefill_seconds, answer.seed, answer.backend) == (None, None, None, None)
    assert answer.device == "cpu"
    assert json.loads(as_json(answer))["p50"] == pytest.approx(0.0115)


def test_tokens_that_an_answer_was_begun_with_took_no_time() -> None:
    begun = [token("given", 0.5, 9.0), token(" too", 0.5, 0.0)]
    decoded = answered()
    for usage, latencies in ((summary(20, list(LATENCIES)), ()), ({}, LATENCIES), ({"completion_tokens": 5}, ())):
        found = Answer.of(usage, [*begun, *decoded], latencies)
        assert found.begun == 2
        assert found.latencies == LATENCIES
        assert [step.seconds for step in found.steps] == [None, None, 0.034, *LATENCIES]
        assert found.steps[-1].elapsed == pytest.approx(0.034 + sum(LATENCIES))
        assert [step.number for step in found.steps] == list(range(1, 8))


# Probabilities


def test_certainty_is_the_mean_the_perplexity_and_the_share_of_the_unlikely() -> None:
    found = measure_certainty([token("a", 0.5), token("b", 0.25), token("c", 1.0), token("d", None)])
    assert found
    assert found.tokens == 3
    assert found.mean_logprob == pytest.approx(math.log(0.125) / 3)
    assert found.perplexity == pytest.approx(2.0)
    assert found.unlikely == pytest.approx(1 / 3)


def test_without_probabilities_there_is_no_certainty() -> None:
    assert measure_certainty([token("a", None)]) is None
    assert measure_certainty([]) is None


def test_the_impossible_and_the_more_than_certain_are_numbers_too() -> None:
    found = measure_certainty([token("a", 0.0)])
    assert found
    assert math.isfinite(found.perplexity)
    assert find_probability(1e-9) == 1.0


# Files


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '",=1', "\"\n=cmd|' /C calc'!A0", ";=1", "plain", ""]
)
def test_no_cell_of_text_is_a_formula(text: str) -> None:
    rows = list(csv.reader(io.StringIO(as_csv(Answer.of(None, [token(text)])))))
    assert len(rows) == 2
    cell = rows[1][2]
    assert cell[0] == cell[-1] == '"'
    assert json.loads(cell) == text


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x9b2J", "\u202eevil", "a\u200bb", "\x7f", "\ud800", "\u2028", "\U000e0041"]
)
def test_files_hold_nothing_that_a_terminal_obeys(text: str) -> None:
    answer = Answer.of(None, [token(text)], model=text)
    for written in (as_csv(answer), as_json(answer)):
        assert written.replace("\n", "").isprintable()
    assert json.loads(as_json(answer))["tokens"][0]["text"] == text
    assert json.loads(escape(text)) == text


def test_letters_of_all_scripts_stay_readable() -> None:
    assert escape("Größe 日本 é") == '"Größe 日本 é"'


def test_the_table_has_a_line_for_each_token() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(Answer.of(None, answered())))))
    assert rows[3] == {
        "token": "4",
        "id": "3",
        "text": '" t3"',
        "milliseconds": "30.0000",
        "elapsed_milliseconds": "86.0000",
        "logprob": f"{math.log(0.3):.6f}",
        "probability": "0.300000",
    }


def test_the_table_leaves_empty_what_is_not_known() -> None:
    rows = list(csv.reader(io.StringIO(as_csv(Answer.of(None, (), LATENCIES)))))
    assert rows[1] == ["1", "", "", "", "", "", ""]
    assert rows[2] == ["2", "", "", "10.0000", "", "", ""]


def test_json_has_the_figures_the_tokens_and_their_alternatives() -> None:
    whole = json.loads(as_json(Answer.of(summary(20, list(LATENCIES)), answered(), model="builtin")))
    assert whole["model"] == "builtin"
    assert whole["p95"] == pytest.approx(summary(20, list(LATENCIES)).p95)
    assert whole["latencies"] == list(LATENCIES)
    assert whole["tokens"][1]["alternatives"][0] == {"id": 1, "text": " t1", "logprob": pytest.approx(math.log(0.7))}
    assert whole["tokens"][1]["alternatives"][1]["logprob"] is None


@pytest.mark.parametrize(("name", "begins"), [("a.csv", "token,id,"), ("a.JSON", "{")])
def test_the_name_says_the_form(tmp_path: Path, name: str, begins: str) -> None:
    save(Answer.of(None, answered()), tmp_path / name)
    assert (tmp_path / name).read_bytes().decode().startswith(begins)


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("precious")
    with pytest.raises(InputError, match="mine.csv already exists; choose another name"):
        save(Answer.of(None, answered()), path)
    assert path.read_text() == "precious"


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.csv or \.json"):
        save(Answer(), tmp_path / "table.txt")
    with pytest.raises(InputError, match="cannot write .*: No such file or directory"):
        save(Answer(), tmp_path / "nowhere" / "table.csv")
    with pytest.raises(InputError, match="cannot write "):
        save(Answer(), tmp_path / f"{'x' * 300}.csv")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no file sizes")
def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        with pytest.raises(InputError, match=r"cannot write .*table.csv: File too large"):
            save(Answer.of(None, answered()), tmp_path / "table.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_proposed_name_is_free_and_a_name(tmp_path: Path) -> None:
    first = propose_path(tmp_path, "org/model: latencies", "csv")
    assert first == tmp_path / "org-model--latencies.csv"
    first.touch()
    assert propose_path(tmp_path, "org/model: latencies", "csv").name == "org-model--latencies-2.csv"
    assert propose_path(tmp_path, "../..", "json") == tmp_path / "answer.json"
