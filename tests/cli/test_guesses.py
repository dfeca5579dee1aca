"""Speculation from the command line."""

import json

import pytest

from chatapp.cli import lossless
from chatapp.cli.run import check_comparable
from chatapp.conversation.replay import Comparison
from chatapp.generation import Alternative, OptionError, Token
from support.checkpoints import MakeCheckpoint, Run

PROMPT = "def f(x):\n    return x\ndef f(x):\n    return x\ndef f(x):\n    return"
GREEDY = ("--temperature", "0", "--max-tokens", "40", "--precision", "f32")


def test_the_answer_is_compared_with_that_of_plain_steps(checkpoint: MakeCheckpoint, chatapp: Run) -> None:
    folder = str(checkpoint())
    found = chatapp("run", folder, PROMPT, *GREEDY, "--check-lossless", "--draft-model", folder, "--stats=json")
    stats, *told = found.stderr.splitlines()
    usage = json.loads(stats)
    assert 0 < usage["accepted"] == usage["drafted"]  # the same model guesses
    assert "Lossless: the same 40 tokens." in told and not found.returncode
    alone = chatapp("run", folder, PROMPT, *GREEDY, "--no-speculate", "--check-lossless")
    assert alone.stdout == found.stdout and "no tokens were guessed" in alone.stderr


def test_figures_tell_how_guesses_have_fared(checkpoint: MakeCheckpoint, chatapp: Run) -> None:
    folder = str(checkpoint())
    stats = ("--draft-model", folder, "--stats=text", "--json", "--logprobs", "0")
    found = chatapp("run", folder, PROMPT, *GREEDY, *stats)
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("guesses")]
    accepted = sum(token["guessed"] for token in json.loads(found.stdout)["tokens"])
    assert line.startswith(f"guesses  {accepted} of {accepted} right")
    plain = chatapp("run", folder, PROMPT, *GREEDY, "--no-speculate", "--stats=text")
    assert "guesses" not in plain.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--draft-model", "builtin", "--no-speculate"], "--draft-model and --no-speculate contradict each other"),
        (["--check-lossless", "-n", "2"], "--check-lossless needs a PROMPT, a single answer"),
        (["--speculate", "--num-beams", "2"], "--speculate works for one text, and --num-beams asks"),
        (["--draft-model", "builtin", "-n", "2"], "--draft-model works for one text, and --n asks for several"),
        (["--draft-model", "builtin", "--num-beams", "2"], "and --num-beams asks for several; leave one"),
    ],
    ids=str,
)
def test_what_contradicts_is_refused_before_a_model_is_opened(chatapp: Run, words: list[str], reason: str) -> None:
    found = chatapp("run", "no-such-model", "x", *words)
    assert found.returncode and reason in found.stderr


def test_answers_with_tools_are_not_compared() -> None:
    with pytest.raises(OptionError, match="and no tools"):
        check_comparable("x", {}, ["sky"])


def test_a_draft_model_of_another_vocabulary_is_refused(checkpoint: MakeCheckpoint, chatapp: Run) -> None:
    found = chatapp("run", str(checkpoint()), "x", "--draft-model", "builtin")
    assert found.returncode and "the draft model has another vocabulary" in found.stderr and not found.stdout


def test_what_differs_is_told_with_how_close_it_was() -> None:
    here = Token(1, " a", None, (), 0.0, guessed=True)
    there = Token(2, " b", -0.69, (Alternative(2, " b", -0.69), Alternative(1, " a", -0.7)), 0.0)
    told = lossless.describe(Comparison(3, 1, here, there)).split("\n")
    assert told[0] == 'Not the same from token 2 on: " a" with guesses, " b" without.'
    assert told[1].startswith("Their log-probabilities differ by 0.0100.")
    assert "where a random number falls between two" in told[1]
    assert "not among the 20 likeliest" in lossless.describe(Comparison(1, 0, Token(3, "c", None, (), 0.0), there))
    assert lossless.describe(Comparison(1, 1, None, here)) == "Not the same: one of the answers ends after 1 tokens."
    assert lossless.describe(Comparison(2)) == "Lossless: the same 2 tokens."
