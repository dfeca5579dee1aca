"""Beam search from the command line."""

import json

import pytest

from support.checkpoints import MakeCheckpoint, Run

SEARCH = ("--num-beams", "4", "-n", "3", "--max-tokens", "6")


def test_the_best_texts_come_with_their_scores(checkpoint: MakeCheckpoint, chatapp: Run) -> None:
    folder = str(checkpoint())
    found = [json.loads(line) for line in chatapp("run", folder, "def f", *SEARCH, "--json").stdout.splitlines()]
    scores = [each["score"] for each in found]
    assert len(found) == 3 and scores == sorted(scores, reverse=True)
    plain = chatapp("run", folder, "def f", *SEARCH)
    heads = [f"completion {place} of 3, score {score:.3f}" for place, score in enumerate(scores, 1)]
    assert plain.stderr.splitlines() == heads
    assert "score" not in json.loads(chatapp("run", folder, "def f", "--max-tokens", "2", "--json").stdout)


def test_the_search_can_be_watched(checkpoint: MakeCheckpoint, chatapp: Run) -> None:
    folder = str(checkpoint())
    told = chatapp("run", folder, "def f", *SEARCH, "--show-beams", "--json")
    events, found = ([json.loads(line) for line in text.splitlines()] for text in (told.stderr, told.stdout))
    best = sorted((event["score"] for event in events if event["change"] == "finished"), reverse=True)
    assert [each["score"] for each in found] == best[:3]
    lines = chatapp("run", folder, "def f", *SEARCH, "--show-beams").stderr.splitlines()
    changes = [line.split()[0] for line in lines if " from " in line]
    assert changes == [event["change"] for event in events]


def test_a_length_penalty_that_is_high_finds_longer_texts(checkpoint: MakeCheckpoint, chatapp: Run) -> None:
    folder = str(checkpoint())
    short, long = (
        json.loads(
            chatapp("run", folder, "def f", *SEARCH[:2], "--length-penalty", by, "--max-tokens", "6", "--json").stdout
        )
        for by in ("0", "3")
    )
    assert short["score"] < long["score"]  # sums, and sums divided by the cube of the length


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-n", "5"], "a search with 4 beams finds 4 texts, not 5"),
        (["--top-k", "5"], "--top-k is for sampling, and a beam search does not sample; add --beam-sampling"),
        (["--num-beam-groups", "2"], "--num-beam-groups and --diversity-penalty belong together"),
        (["--num-beams", "1", "--show-beams"], "--show-beams needs a beam search; add --num-beams"),
        (["--early-stopping", "maybe"], "--early-stopping must be true, false or never"),
        (["--num-beams", "1", "--length-penalty", "2"], "--length-penalty needs a beam search; add --num-beams"),
        (["--num-beams", "1", "--beam-sampling"], "--beam-sampling needs a beam search; add --num-beams"),
        (["--bad-word", ""], '--bad-word must be a list of non-empty texts, not [""]'),
    ],
    ids=str,
)
def test_options_that_would_do_nothing_are_refused_before_a_model_is_opened(
    chatapp: Run, words: list[str], reason: str
) -> None:
    found = chatapp("run", "no-such-model", "x", "--num-beams", "4", *words)
    assert found.returncode and reason in found.stderr
